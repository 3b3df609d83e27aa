// What is the same for every command: how it is found, its flags, help, exit codes, completion.
#include <fcntl.h>
#include <unistd.h>

#include "tests/plugin/cli_world.h"
#include "tests/support/fixture.h"

namespace nomad_bridge::test {
namespace {

class CommandLine : public CliWorld {
 protected:
  // What bash offers for the last of `words`.
  [[nodiscard]] std::vector<std::string> Completed(const std::vector<std::string>& words,
                                                   const std::string& directory = "/") {
    std::string array;
    for (const std::string& word : words) {
      array += Cat(" '", word, "'");
    }
    const Outcome outcome = host().Run(
        {"bash",
         "-c",
         Cat("cd ",
             directory,
             "; PATH=",
             fs::path(BinaryUnderTest()).parent_path().string(),
             ":$PATH; source <(nomad-bridge completion bash); compopt() { :; }; COMP_WORDS=(",
             array,
             "); COMP_CWORD=",
             words.size() - 1,
             "; _nomad_bridge; ((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"")});
    EXPECT_EQ(outcome.err, "");
    return Lines(outcome.out);
  }
};

TEST_F(CommandLine, PrintsTheFingerprintForNomadWithoutArguments) {
  const Outcome outcome = Run(std::vector<std::string>{});
  EXPECT_THAT(outcome, Exits(0, Out(""), Err(StartsWith("CNI nomad-bridge plugin v"))));
  const std::string version = Output("version");
  EXPECT_EQ(version.substr(0, outcome.err.size()), outcome.err);
  EXPECT_THAT(version.substr(outcome.err.size()),
              ::testing::MatchesRegex("commit ([0-9a-f]{12}[+]?|unknown)\n"));
  EXPECT_EQ(Output("--version"), version);
}

// script(1) gives it a terminal.
TEST_F(CommandLine, PrintsHelpWithoutArgumentsOnATerminal) {
  Command command = Line({});
  command.argv = {"script", "-qec", command.argv.front(), "/dev/null"};
  EXPECT_THAT(Execute(command).out, HasSubstr("nomad-bridge help COMMAND"));
}

TEST_F(CommandLine, IsNotLookedAtUnderARuntime) {
  Command command = PluginCommand("VERSION", "");
  command.argv.insert(command.argv.end(), {"help", "install"});
  EXPECT_TRUE(Execute(command).json.contains("supportedVersions"));
}

TEST_F(CommandLine, IsTheSameUnderEveryName) {
  EXPECT_EQ(Execute(PluginCommand("", "", {{"CNI_COMMAND", ""}}, "bridge")).err.substr(0, 10),
            "CNI bridge");
  Command command = PluginCommand("", "", {{"CNI_COMMAND", std::nullopt}}, "bridge");
  command.argv.emplace_back("help");
  EXPECT_EQ(Execute(command).out, Output("help"));
}

TEST_F(CommandLine, HelpSaysHowEachCommandIsUsed) {
  for (const std::string& name : CommandNames()) {
    const std::string help = Output(Cat("help ", name));
    EXPECT_THAT(help, StartsWith(Cat("Usage: nomad-bridge ", name))) << name;
    EXPECT_THAT(help, HasSubstr("\n  -help")) << name;
    EXPECT_EQ(Output(Cat(name, " -help")), help);
    EXPECT_EQ(Output(Cat(name, " --help")), help);
    EXPECT_EQ(Output(Cat(name, " -h")), help);
  }
  for (const char* const word : {"-help", "--help", "-h"}) {
    EXPECT_EQ(Output(word), Output("help"));
  }
}

TEST_F(CommandLine, ExplainsTheFirstWordOfSeveralCommands) {
  const std::string lines = Output("help policy");
  EXPECT_THAT(lines, StartsWith("  policy check [DIR] "));
  EXPECT_THAT(lines, HasSubstr("\n  policy show "));
  EXPECT_THAT(lines, Not(HasSubstr("config")));
  EXPECT_EQ(Output("policy -help"), lines);
  EXPECT_THAT(RunLine("policy"),
              Exits(2,
                    Out(""),
                    Err(Cat("nomad-bridge: 'policy' needs a second word:\n",
                            lines,
                            "Try 'nomad-bridge help'\n"))));
}

TEST_F(CommandLine, ListsTheCommandsInGroups) {
  std::vector<std::string> titles;
  for (const std::string& line : Lines(Output("help"))) {
    if (line.ends_with(':') && Words(line).size() == 1) {
      titles.push_back(line);
    }
  }
  EXPECT_THAT(titles, ElementsAre("Look:", "Repair:", "Policy:", "Install:"));
  EXPECT_THAT(
      Output("help"),
      AllOf(HasSubstr("\n\nRepair:\n  reconcile "), HasSubstr("\n\nPolicy:\n  policy check ")));
}

TEST_F(CommandLine, KeepsTheColumnsOfATerminal) {
  std::vector<std::string> names = CommandNames();
  names.emplace_back("");
  for (const std::string& name : names) {
    std::istringstream lines(Output(Cat("help ", name)));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 80U) << name << ": " << line;
    }
  }
}

// Text is broken there, but for commands to be pasted, and loses nothing.
TEST_F(CommandLine, KeepsTheColumnsInFindings) {
  Attach(Publish({Port(8080, 80)}, DualStack()),
         As(kAllocation, container(), NomadArgs("a-job-with-a-long-name", kAllocation)));
  host().Shell(
      "nft 'add table inet mine; add chain inet mine forward { type filter hook forward priority "
      "10; policy drop; }'");
  for (const char* const line : {"doctor", "inspect 8080", "inspect 8080 -no-probe"}) {
    ExpectColumns(80, line);
  }
  const std::vector<std::string> lines = OnTerminal(80, "doctor");
  EXPECT_THAT(lines, Contains(StartsWith(std::string(28, ' '))));
  EXPECT_THAT(
      Joined(Words(Joined(lines, " ")), " "),
      HasSubstr("chain forward of table inet mine (policy drop) comes after ours and drops"));
}

TEST_F(CommandLine, KeepsTheColumnsInTheManPage) {
  const std::string page = host().Must(
      {"sh",
       "-c",
       Cat(ProjectPath("packaging/make-manual"), " \"$0\" | groff -man -Tascii -rLL=80n -P-cbou"),
       BinaryUnderTest()});
  EXPECT_THAT(page, AllOf(HasSubstr("\n   policy show\nUsage: "), HasSubstr("\nEXIT STATUS\n")));
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST_F(CommandLine, SuggestsNearNamesForUnknownWords) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"instal"}, "unknown command 'instal'; did you mean 'install'?\nTry 'nomad-bridge help'"},
      {{"help", "versoin"},
       "unknown command 'versoin'; did you mean 'version'?\nTry 'nomad-bridge help'"},
      {{"frobnicate"}, "unknown command 'frobnicate'\nTry 'nomad-bridge help'"},
      {{"help", "nope"}, "unknown command 'nope'\nTry 'nomad-bridge help'"},
      {{""}, "unknown command ''\nTry 'nomad-bridge help'"},
      {{"-x"}, "unknown command '-x'\nTry 'nomad-bridge help'"},
      {{"version", "-hepl"},
       "version has no flag '-hepl'; did you mean 'help'?\nUsage: nomad-bridge version"},
      {{"version", "--no-colour"},
       "version has no flag '--no-colour'; did you mean 'no-color'?\nUsage: nomad-bridge version"},
      {{"list", "-jso"},
       "list has no flag '-jso'; did you mean 'json'?\nUsage: nomad-bridge list [-wide] [-q] "
       "[-watch] [-json] [FILTER...]"},
      {{"config", "chekc"},
       "unknown command 'config chekc'; did you mean 'config check'?\nTry 'nomad-bridge help'"},
      {{"metrics", "-output"},
       "-output wants a value\nUsage: nomad-bridge metrics [-output FILE] [-textfile]"},
      {{"version", "all"}, "version takes no operands\nUsage: nomad-bridge version"},
      {{"completion", "tcsh"}, "there is completion for bash alone, not for 'tcsh'"}};
  for (const auto& [arguments, why] : cases) {
    EXPECT_THAT(Run(arguments), Exits(2, Err(Cat("nomad-bridge: ", why, '\n')), Out(""))) << why;
  }
}

TEST_F(CommandLine, TakesFlagsBeforeTheCommandAndByTheirLetter) {
  EXPECT_EQ(Output("--json list"), Output("list -json"));
  EXPECT_TRUE(RunLine("-n -json reconcile").json.at("dryRun"));
  EXPECT_TRUE(RunLine("gc -json -n").json.at("dryRun"));
}

TEST_F(CommandLine, SucceedsIfStdoutIsAClosedPipe) {
  Command command = Line({"help"});
  command.in_child = [] {
    std::array<int, 2> ends{};
    static_cast<void>(::pipe(ends.data()));
    ::close(ends[0]);
    ::dup2(ends[1], STDOUT_FILENO);
  };
  EXPECT_THAT(Execute(command), Exits(0, Err("")));
}

TEST_F(CommandLine, ReportsThatItCannotWrite) {
  Command command = Line({"help"});
  command.in_child = [] { ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO); };
  EXPECT_THAT(Execute(command),
              Exits(1, Err(HasSubstr("cannot write to stdout: No space left on device (ENOSPC)"))));
}

TEST_F(CommandLine, IsCompletedByBash) {
  EXPECT_THAT(Completed({"nomad-bridge", "ins"}), Contains("install"));
  EXPECT_THAT(Completed({"nomad-bridge", "inst"}), ElementsAre("install"));
  EXPECT_THAT(Completed({"nomad-bridge", "install", "-"}),
              ElementsAre("-only", "-replace", "-no-color", "-help"));
  EXPECT_THAT(Completed({"nomad-bridge", "install", "/proc/sys/net/ipv"}),
              UnorderedElementsAre("/proc/sys/net/ipv4", "/proc/sys/net/ipv6"));
  EXPECT_THAT(Completed({"nomad-bridge", "help", "vers"}), ElementsAre("version"));
  EXPECT_THAT(Completed({"nomad-bridge", "completion", ""}), ElementsAre("bash"));
  EXPECT_THAT(Completed({"nomad-bridge", "list", "jo"}), ElementsAre("job="));
  EXPECT_THAT(Completed({"nomad-bridge", "metrics", "-o"}), ElementsAre("-output"));
  EXPECT_THAT(Completed({"nomad-bridge", "gc", ""}), IsEmpty());
  EXPECT_THAT(Completed({"nomad-bridge", "config", ""}), ElementsAre("check"));
  EXPECT_THAT(Completed({"nomad-bridge", "config", "check", "/proc/cmdl"}),
              ElementsAre("/proc/cmdline"));
  Attach(Config(), As("5f3c1a2b-0000", container()));
  Attach(Config(), As("9d01c7e4-0000", AddContainer("other")));
  EXPECT_THAT(Completed({"nomad-bridge", "inspect", ""}), ElementsAre("5f3c1a2b", "9d01c7e4"));
  // bash takes "net=n" for three words.
  EXPECT_THAT(Completed({"nomad-bridge", "list", "net", "="}), ElementsAre("nomad"));
  EXPECT_THAT(Completed({"nomad-bridge", "list", "net", "=", "n"}), ElementsAre("nomad"));
  EXPECT_THAT(Completed({"nomad-bridge", "list", "net", "=", "x"}), IsEmpty());
  EXPECT_EQ(Output("completion -values ns"), "");
  EXPECT_THAT(Completed({"nomad-bridge", "metrics", "-output", "=", "/proc/cmdl"}),
              ElementsAre("/proc/cmdline"));
  EXPECT_THAT(Completed({"nomad-bridge", "policy", "test", "--dir", "/proc/sys/net/ipv"}),
              UnorderedElementsAre("/proc/sys/net/ipv4", "/proc/sys/net/ipv6"));
  EXPECT_THAT(Completed({"nomad-bridge", "list", "state", "=", "un"}),
              UnorderedElementsAre("unplugged", "unrecorded", "unreadable"));
  for (const std::string& name : CommandNames()) {
    EXPECT_THAT(Completed({"nomad-bridge", Words(name).front()}), Contains(Words(name).front()));
  }
}

TEST_F(CommandLine, IsCompletedWithChecksJobsPortsAndNetworks) {
  Attach(Publish({Port(8080, 80)}, DualStack()),
         As(kAllocation, container(), NomadArgs("billing", kAllocation)));
  EXPECT_THAT(Completed({"nomad-bridge", "inspect", ""}),
              ElementsAre("5f3c1a2b", "billing", "8080"));
  EXPECT_THAT(Completed({"nomad-bridge", "policy", "show", "b"}), ElementsAre("billing"));
  EXPECT_THAT(Completed({"nomad-bridge", "list", "port", "=", "8"}), ElementsAre("8080"));
  EXPECT_THAT(Completed({"nomad-bridge", "policy", "test", "-port", "8"}), ElementsAre("8080"));
  EXPECT_THAT(Completed({"nomad-bridge", "doctor", "ports.p"}), ElementsAre("ports.probe"));
  const json doctor = RunLine("doctor -json -probe").json;
  for (const json& check : doctor.at("checks")) {
    const std::string id = check.at("check");
    EXPECT_THAT(Completed({"nomad-bridge", "doctor", id}), Contains(id));
  }

  const Mounted opt({"-t", "tmpfs", "tmpfs"}, "/opt");
  EXPECT_THAT(Completed({"nomad-bridge", "down", ""}), IsEmpty());
  fs::create_directories("/opt/cni/config");
  std::ofstream("/opt/cni/config/a.conflist")
      << R"({"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "nomad-bridge"}]})";
  std::ofstream("/opt/cni/config/b.conflist") << "{";
  EXPECT_THAT(Completed({"nomad-bridge", "down", ""}), ElementsAre("web"));
}

TEST_F(CommandLine, IsCompletedSilentlyWithoutRoot) {
  Attach(Publish({Port(8080, 80)}, DualStack()),
         As(kAllocation, container(), NomadArgs("billing", kAllocation)));
  const auto values = [&](const std::string& kinds) {
    return Execute(LineWithoutRoot({"completion", "-values", kinds}));
  };
  EXPECT_THAT(values("ALLOC|PORT"), Exits(0, Out("5f3c1a2b\nbilling\n"), Err("")));
  EXPECT_THAT(values("CHECK"), Exits(0, Out(HasSubstr("ports.probe\n")), Err("")));
  EXPECT_THAT(values("NOTHING"), Exits(0, Out(""), Err("")));
  ReplaceFile(RecordOf(kAllocation), "{");
  EXPECT_THAT(Run({"completion", "-values", "ALLOC|PORT"}),
              Exits(0, Out("5f3c1a2b\nbilling\n"), Err("")));
}

TEST_F(CommandLine, IsCompletedWithoutExpandingAllocationNames) {
  const std::string directory = "/run/shared/empty";
  EnsureDirectory(directory);
  int number = 0;
  for (const char* const name : {"$(>a)", "`>b`", "$HOME", "*"}) {
    const std::string container = Cat("called-", ++number);
    Variables variables = As(container, AddContainer(container));
    variables["CNI_ARGS"] = Cat("IgnoreUnknown=1;NOMAD_ALLOC_ID=", name);
    Attach(Config(), variables);
  }
  EXPECT_THAT(Completed({"nomad-bridge", "inspect", ""}, directory),
              UnorderedElementsAre(R"(\$\(\>a\))", R"(\`\>b\`)", R"(\$HOME)", R"(\*)"));
  EXPECT_TRUE(fs::is_empty(directory));
}

TEST_F(CommandLine, QuotesWhatComesFromOutsideInACommandToType) {
  Attach(Config());
  EXPECT_THAT(Run({"doctor"}, {{"CNI_PATH", "/run/shared/$(id) it's"}}).out,
              HasSubstr(R"(nomad-bridge install '/run/shared/$(id) it'\''s')"));

  // What a runtime calls an interface, and a namespace.
  EnsureDirectory("/run/shared");
  EnsureDirectory("/run/shared/$(id)");
  fs::create_symlink(container().path(), "/run/shared/$(id)/a b");
  Attach(Config(), {{"CNI_IFNAME", "a;$(id)"}, {"CNI_NETNS", "/run/shared/$(id)/a b"}});
  container().Must(Words("ip link set a;$(id) down"));
  const std::string out = RunLine("inspect alloc-1").out;
  const std::string fix = "nsenter --net='/run/shared/$(id)/a b' ip link set 'a;$(id)' up";
  ASSERT_THAT(out, HasSubstr(fix));
  host().Must({"sh", "-c", fix});
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
}

}  // namespace
}  // namespace nomad_bridge::test
