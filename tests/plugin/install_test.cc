// nomad-bridge install DIR and uninstall DIR, as an administrator calls them.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/plugin/cli_world.h"
#include "tests/support/mounted.h"

namespace nomad_bridge::test {
namespace {

constexpr std::array kLinks = {"bridge", "host-local", "firewall", "portmap", "loopback"};
constexpr const char* kDirectory = "/run/plugins";

// What every build of ours, of any version, can be known by.
constexpr const char* kOlder =
    "#!/bin/sh\n: '\nThis file is the CNI plugin nomad-bridge, and may replace itself.\n'\n";
constexpr const char* kReferencePlugin = "#!/bin/sh\n: the reference\n";

class Install : public CliWorld {
 protected:
  void SetUp() override { fs::create_directories(kDirectory); }

  [[nodiscard]] Outcome RunInstall(const std::vector<std::string>& options = {}) {
    std::vector<std::string> arguments = {"install", kDirectory};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return Run(arguments);
  }
  void MustInstall(const std::vector<std::string>& options = {}) {
    ASSERT_THAT(RunInstall(options), Exits(0));
  }

  [[nodiscard]] std::string Built() {
    return FindFile(PluginCommand("", "").argv.front(), 1 << 28).value();
  }
};

std::string Path(const std::string& name) {
  return Cat(kDirectory, '/', name);
}

std::string Content(const std::string& name) {
  return FindFile(Path(name), 1 << 28).value_or("nothing");
}

void Write(const std::string& name, const std::string& content) {
  fs::create_directories(kDirectory);
  WriteProgram(Path(name), content);
}

// Every name, with what it is and what it holds or leads to.
std::map<std::string, std::string> Listing() {
  std::map<std::string, std::string> listing;
  for (const fs::directory_entry& entry : fs::directory_iterator(kDirectory)) {
    const std::string name = entry.path().filename();
    listing[name] = entry.is_symlink()     ? Cat("-> ", fs::read_symlink(entry.path()).string())
                    : entry.is_directory() ? "directory"
                                           : Content(name);
  }
  return listing;
}

// What Nomad's fingerprint asks.
std::string About(const std::string& name) {
  return Execute(Command{.argv = {Path(name)}, .variables = {{"CNI_COMMAND", std::nullopt}}}).err;
}

void ExpectInstalled() {
  EXPECT_THAT(About("nomad-bridge"), StartsWith("CNI nomad-bridge plugin v"));
  for (const char* const name : kLinks) {
    EXPECT_EQ(fs::read_symlink(Path(name)), "nomad-bridge") << name;
    EXPECT_THAT(About(name), StartsWith("CNI ")) << name;
  }
}

// ---- what it installs

TEST_F(Install, SaysInADryRunWhatItWouldDo) {
  Write("nomad-bridge", kOlder);
  Write("bridge", kReferencePlugin);
  const auto before = Listing();
  EXPECT_THAT(RunInstall({"-n"}), Exits(1, Err(HasSubstr("this is not ours"))));
  EXPECT_THAT(RunInstall({"-n", "-replace"}),
              Exits(0,
                    Out(HasSubstr("nomad-bridge: this program, would replace an older one\n")),
                    Out(HasSubstr("/bridge: link to nomad-bridge, would be made, and what is there "
                                  "kept as bridge.before-nomad-bridge\n"))));
  EXPECT_THAT(Output(Cat("uninstall -n ", kDirectory)),
              AllOf(HasSubstr("/bridge: not ours, left\n"),
                    HasSubstr("/nomad-bridge: would be removed\n")));
  EXPECT_EQ(Listing(), before);
  EXPECT_THAT(RunLine("install -n -p /run/none"),
              Exits(0, Out(HasSubstr("/run/none/portmap: link to nomad-bridge, would be made\n"))));
  EXPECT_FALSE(fs::exists("/run/none"));
}

TEST_F(Install, CopiesItselfAndCreatesFiveLinksInANewDirectory) {
  EXPECT_THAT(Run({"install", "-p", "/run/a/new/directory"}),
              Exits(0,
                    Err(""),
                    Out("/run/a/new/directory/nomad-bridge: this program\n"
                        "/run/a/new/directory/bridge: link to nomad-bridge\n"
                        "/run/a/new/directory/host-local: link to nomad-bridge\n"
                        "/run/a/new/directory/firewall: link to nomad-bridge\n"
                        "/run/a/new/directory/portmap: link to nomad-bridge\n"
                        "/run/a/new/directory/loopback: link to nomad-bridge\n")));

  EXPECT_EQ(Entries("/run/a/new/directory").size(), 6U);
}

TEST_F(Install, MakesNoDirectoryUnlessAsked) {
  EXPECT_THAT(RunLine("install /run/opt/cni/bni"),
              Exits(1,
                    Err("nomad-bridge: there is no directory '/run/opt/cni/bni': with -p it is "
                        "made\n")));
  EXPECT_FALSE(fs::exists("/run/opt"));
}

TEST_F(Install, MakesItsFilesExecutableWhateverTheUmask) {
  Command command = Line({"install", kDirectory});
  command.in_child = [] { ::umask(0077); };
  ASSERT_EQ(Execute(command).exit_code, 0);

  EXPECT_EQ(Content("nomad-bridge"), Built());
  EXPECT_EQ(fs::status(Path("nomad-bridge")).permissions(), fs::perms(0755));
  ExpectInstalled();
}

TEST_F(Install, CreatesLinksThatMoveWithTheDirectory) {
  MustInstall();
  fs::rename(kDirectory, "/run/elsewhere");
  EXPECT_TRUE(fs::equivalent("/run/elsewhere/bridge", "/run/elsewhere/nomad-bridge"));
}

TEST_F(Install, ChangesNothingTheSecondTime) {
  MustInstall();
  const fs::file_time_type before = fs::last_write_time(Path("nomad-bridge"));
  const auto listing = Listing();

  EXPECT_THAT(RunInstall(),
              Exits(0,
                    Out(HasSubstr("/run/plugins/nomad-bridge: this program, as before\n")),
                    Out(HasSubstr("/run/plugins/portmap: link to nomad-bridge, as before\n"))));

  EXPECT_EQ(Listing(), listing);
  EXPECT_EQ(fs::last_write_time(Path("nomad-bridge")), before);
}

TEST_F(Install, MayBeRunFromTheDirectoryItself) {
  MustInstall();
  EXPECT_THAT(Execute(Command{.argv = {Path("bridge"), "install", kDirectory},
                              .variables = {{"CNI_COMMAND", std::nullopt}}}),
              Exits(0));
  ExpectInstalled();
}

// ---- over what is ours

TEST_F(Install, ReplacesAnOlderOneWhileItIsRunning) {
  const std::string older = Built() + "older";
  Write("nomad-bridge", older);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  Command waiting = PluginCommand("STATUS", "");
  waiting.argv = {Path("nomad-bridge")};
  waiting.in_child = [&] { ::dup2(reader.get(), STDIN_FILENO); };
  Process running = Process::Start(waiting);
  const std::string program = Cat("/proc/", running.pid(), "/exe");
  while (fs::read_symlink(program) != Path("nomad-bridge")) {
  }

  EXPECT_THAT(RunInstall(), Exits(0, Out(HasSubstr("this program, in place of an older one\n"))));

  EXPECT_EQ(Content("nomad-bridge"), Built());
  EXPECT_EQ(FindFile(program, 1 << 28), older) << "the one that runs is as it was";
  writer = UniqueFd();
  EXPECT_EQ(running.Wait().json.at("code"), 6) << "it goes on: stdin has ended, empty";
  EXPECT_EQ(Entries(kDirectory).size(), 6U) << "nothing is kept of what is ours";
}

TEST_F(Install, ReplacesCopiesOfItselfAndLinksToIt) {
  Write("bridge", Built());
  Write("../older", Built() + "older");
  fs::create_symlink("/run/older", Path("portmap"));
  fs::create_symlink("/run/older", Path("nomad-bridge"));
  fs::create_symlink("nomad-bridge", Path("loopback"));

  MustInstall();

  ExpectInstalled();
  EXPECT_FALSE(fs::is_symlink(Path("nomad-bridge")));
  EXPECT_EQ(Entries(kDirectory).size(), 6U);
  EXPECT_EQ(FindFile("/run/older", 1 << 28), Built() + "older") << "outside the directory";
}

TEST_F(Install, OverwritesTheLeftoverOfOneThatWasKilled) {
  Write(".nomad-bridge.new", "half a program");
  MustInstall();
  ExpectInstalled();
  EXPECT_EQ(Entries(kDirectory).size(), 6U);
}

// ---- over what is not

TEST_F(Install, RefusesWhatIsNotOursAndChangesNothing) {
  Write("bridge", "the reference");
  fs::create_symlink("/usr/lib/cni/portmap", Path("portmap"));
  const auto before = Listing();

  EXPECT_THAT(
      RunInstall(),
      Exits(1,
            Out(""),
            Err("nomad-bridge: nothing was changed, as this is not ours: '/run/plugins/bridge', "
                "'/run/plugins/portmap': with --replace it is kept beside as "
                "<name>.before-nomad-bridge\n")));

  EXPECT_EQ(Listing(), before);
}

TEST_F(Install, RefusesAForeignProgramOfItsName) {
  Write("nomad-bridge", "#!/bin/sh\necho CNI nomad-bridge plugin v9\n");
  EXPECT_EQ(RunInstall().exit_code, 1);
  EXPECT_EQ(Listing().size(), 1U);
}

TEST_F(Install, RefusesALinkThatLeadsNowhere) {
  fs::create_directories(kDirectory);
  fs::create_symlink("somewhere/nomad-bridge", Path("bridge"));
  EXPECT_EQ(RunInstall().exit_code, 1);
}

TEST_F(Install, KeepsWhatItReplacesUnderAClearName) {
  Write("bridge", "the reference");
  Write("dhcp", "another plugin");
  fs::create_symlink("/usr/lib/cni/portmap", Path("portmap"));

  EXPECT_THAT(
      RunInstall({"--replace"}),
      Exits(0,
            Out(HasSubstr("/run/plugins/bridge: link to nomad-bridge, what was there is kept as "
                          "bridge.before-nomad-bridge\n"))));

  ExpectInstalled();
  EXPECT_EQ(Content("bridge.before-nomad-bridge"), "the reference");
  EXPECT_EQ(fs::read_symlink(Path("portmap.before-nomad-bridge")), "/usr/lib/cni/portmap");
  EXPECT_EQ(Content("dhcp"), "another plugin");
  EXPECT_EQ(Entries(kDirectory).size(), 9U);
}

TEST_F(Install, KeepsWhatWasKeptEarlier) {
  for (const char* const content : {"first", "second", "third"}) {
    fs::remove(Path("bridge"));
    Write("bridge", content);
    MustInstall({"--replace"});
  }
  EXPECT_EQ(Content("bridge.before-nomad-bridge"), "first");
  EXPECT_EQ(Content("bridge.before-nomad-bridge.2"), "second");
  EXPECT_EQ(Content("bridge.before-nomad-bridge.3"), "third");
  ExpectInstalled();
}

TEST_F(Install, NeverReplacesADirectory) {
  fs::create_directories(Path("firewall/rules"));
  EXPECT_THAT(RunInstall({"--replace"}),
              Exits(1, Err("nomad-bridge: '/run/plugins/firewall' is a directory\n")));
  EXPECT_EQ(Listing().size(), 1U);
}

class KilledInstall : public Install, public ::testing::WithParamInterface<int> {
 protected:
  // Exit codes of the names that were there before.
  static std::string Codes() {
    std::string codes;
    for (const char* const name : {"nomad-bridge", "bridge", "loopback"}) {
      const Command about{.argv = {Path(name)}, .variables = {{"CNI_COMMAND", std::nullopt}}};
      codes += Cat(Execute(about).exit_code, ' ');
    }
    return codes;
  }
};

// The program under sanitizers has 80 MB, so few runs are many.
constexpr int kSlices = 6;
INSTANTIATE_TEST_SUITE_P(Slices, KilledInstall, ::testing::Range(1, kSlices + 1));

TEST_P(KilledInstall, LeavesEveryNameTheOldOrTheNewProgramAndCanBeRepeated) {
  const Command command = Line({"install", kDirectory, "--replace"});
  for (int nth = GetParam(); !HasFailure(); nth += SweepStep(kSlices)) {
    SCOPED_TRACE(Cat("killed at call ", nth));
    fs::remove_all(kDirectory);
    Write("nomad-bridge", kOlder);
    Write("bridge", kReferencePlugin);
    Write("loopback", kOlder);

    const Killing killing = RunKilledAt(command, nth);

    EXPECT_EQ(Codes(), "0 0 0 ");
    if (!killing.killed) {
      ExpectInstalled();
      return;
    }
    MustInstall({"--replace"});
    EXPECT_EQ(Content("bridge.before-nomad-bridge"), kReferencePlugin);
    EXPECT_EQ(Content("nomad-bridge"), Built());
    EXPECT_EQ(fs::read_symlink(Path("bridge")), "nomad-bridge");
    EXPECT_EQ(fs::read_symlink(Path("loopback")), "nomad-bridge");
  }
}

// ---- what it cannot do

TEST_F(Install, RefusesAFileInPlaceOfTheDirectory) {
  std::ofstream("/run/file") << "a file";
  EXPECT_THAT(RunLine("install -p /run/file"),
              Exits(1,
                    Err("nomad-bridge: cannot create the directory '/run/file': it exists and is "
                        "not a directory\n")));
}

TEST_F(Install, ReportsThatItMayNotWrite) {
  fs::create_directories(kDirectory);
  host().Must({"mount", "-t", "tmpfs", "-o", "ro", "none", kDirectory});
  EXPECT_THAT(RunInstall(), Exits(1, Err(HasSubstr("'/run/plugins'")), Err(HasSubstr("EROFS"))));
  host().Must({"umount", kDirectory});

  EXPECT_THAT(Execute(LineWithoutRoot({"install", kDirectory})),
              Exits(1,
                    Err(HasSubstr("cannot write into the directory '/run/plugins'")),
                    Err(HasSubstr("EACCES"))));
  EXPECT_TRUE(Listing().empty());
}

// Whoever may read the directory may lock it.
TEST_F(Install, DoesNotWaitForALockThatAnybodyCanTake) {
  fs::create_directories(kDirectory);
  const UniqueFd other(::open(kDirectory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
  MustInstall();
  EXPECT_TRUE(Content("nomad-bridge") == Built());
}

// Each either installs all or fails with the name of what it could not replace.
TEST_F(Install, ManyAtATimeLeaveWholeFiles) {
  fs::create_directories(kDirectory);
  std::vector<Process> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(Process::Start(Line({"install", kDirectory})));
  }
  for (Process& each : all) {
    const Outcome outcome = each.Wait();
    EXPECT_TRUE(outcome.exit_code == 0 || outcome.err.find("ENOENT") != std::string::npos)
        << outcome;
  }
  MustInstall();
  EXPECT_TRUE(Content("nomad-bridge") == Built());
  EXPECT_EQ(Listing().size(), kLinks.size() + 1);
}

TEST_F(Install, LeavesTheOldProgramWhenTheDiskIsFull) {
  fs::create_directories(kDirectory);
  host().Must({"mount", "-t", "tmpfs", "-o", "size=64k", "none", kDirectory});
  Write("nomad-bridge", "#!/bin/sh\n");
  EXPECT_THAT(RunInstall({"--replace"}), Exits(1, Err(HasSubstr("ENOSPC"))));
  EXPECT_EQ(Content("nomad-bridge"), "#!/bin/sh\n");
  EXPECT_EQ(Listing().size(), 1U) << "nor half a program";
}

// ---- the command line

TEST_F(Install, NamesWhatItDoesNotUnderstandAndDoesNothing) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"install"}, "install takes DIR"},
      {{"install", ""}, "install takes DIR"},
      {{"install", kDirectory, "/run/other"}, "install takes DIR"},
      {{"install", "--replace"}, "install takes DIR"},
      {{"install", "--force", kDirectory}, "install has no flag '--force'"},
      {{"install", "-replce", kDirectory},
       "install has no flag '-replce'; did you mean 'replace'?"}};
  for (const auto& [arguments, why] : cases) {
    EXPECT_THAT(
        Run(arguments),
        Exits(2,
              Err(Cat("nomad-bridge: ",
                      why,
                      "\nUsage: nomad-bridge install [-replace] [-p] [-dry-run, -n] DIR\n")),
              Out("")))
        << why;
  }
  EXPECT_TRUE(fs::is_empty(kDirectory));
}

TEST_F(Install, TakesItsFlagWithOneDashAndInAnyPlace) {
  Write("bridge", "the reference");
  ASSERT_EQ(Run({"install", "-replace", kDirectory}).exit_code, 0);
  EXPECT_EQ(Content("bridge.before-nomad-bridge"), "the reference");
}

TEST_F(Install, IgnoresArgumentsUnderARuntime) {
  Command command = PluginCommand("VERSION", "");
  command.argv.insert(command.argv.end(), {"install", kDirectory});
  EXPECT_TRUE(Execute(command).json.contains("supportedVersions"));
  EXPECT_TRUE(fs::is_empty(kDirectory));
}

// ---- uninstall, the mirror of it

class Uninstall : public CliWorld {
 protected:
  void SetUp() override { fs::create_directory("/run/plugins"); }
  static void Write(const std::string& name) { std::ofstream(Cat("/run/plugins/", name)) << name; }
};

TEST_F(Uninstall, RemovesWhatInstallCreatedAndNothingElse) {
  Write("dhcp");
  ASSERT_THAT(Output("install /run/plugins"), Not(IsEmpty()));

  EXPECT_EQ(Output("uninstall /run/plugins"),
            "/run/plugins/loopback: removed\n"
            "/run/plugins/portmap: removed\n"
            "/run/plugins/firewall: removed\n"
            "/run/plugins/host-local: removed\n"
            "/run/plugins/bridge: removed\n"
            "/run/plugins/nomad-bridge: removed\n");
  EXPECT_THAT(Entries("/run/plugins"), ElementsAre("dhcp"));
  EXPECT_EQ(Output("uninstall /run/plugins"), "") << "again";
}

TEST_F(Uninstall, LeavesAndNamesWhatIsNotOurs) {
  Write("bridge");
  ASSERT_THAT(Output("install --replace /run/plugins"), Not(IsEmpty()));
  fs::remove("/run/plugins/portmap");
  Write("portmap");
  fs::remove("/run/plugins/firewall");
  fs::create_directory("/run/plugins/firewall");

  EXPECT_EQ(Output("uninstall /run/plugins"),
            "/run/plugins/loopback: removed\n"
            "/run/plugins/portmap: not ours, left\n"
            "/run/plugins/firewall: not ours, left\n"
            "/run/plugins/host-local: removed\n"
            "/run/plugins/bridge: removed\n"
            "/run/plugins/nomad-bridge: removed\n"
            "/run/plugins/bridge.before-nomad-bridge: left; 'mv' makes it bridge again\n");
  EXPECT_EQ(FindFile("/run/plugins/bridge.before-nomad-bridge"), "bridge");
  EXPECT_EQ(FindFile("/run/plugins/portmap"), "portmap");
}

TEST_F(Uninstall, RemovesTheLinksAlone) {
  ASSERT_THAT(Output("install /run/plugins"), Not(IsEmpty()));
  EXPECT_THAT(Output("uninstall -links /run/plugins"), EndsWith("/run/plugins/bridge: removed\n"));
  EXPECT_THAT(Entries("/run/plugins"), ElementsAre("nomad-bridge"));
}

// As dpkg notes what a package brought.
TEST_F(Uninstall, LeavesThePackagesProgram) {
  ASSERT_THAT(Output("install /run/plugins"), Not(IsEmpty()));
  fs::create_directory("/run/info");
  std::ofstream("/run/info/nomad-bridge.list") << "/.\n/run/plugins/nomad-bridge\n";
  const Mounted info({"--bind", "/run/info"}, "/var/lib/dpkg/info");
  EXPECT_THAT(Output("uninstall /run/plugins"),
              EndsWith("/run/plugins/nomad-bridge: of the package nomad-bridge, left; 'apt remove "
                       "nomad-bridge' removes it\n"));
  EXPECT_THAT(Entries("/run/plugins"), ElementsAre("nomad-bridge"));
}

TEST_F(Uninstall, LeavesAForeignProgramOfItsName) {
  Write("nomad-bridge");
  EXPECT_EQ(Output("uninstall /run/plugins"), "/run/plugins/nomad-bridge: not ours, left\n");
}

TEST_F(Uninstall, RefusesADirectoryThatIsNotThere) {
  EXPECT_THAT(RunLine("uninstall /run/absent"),
              Exits(1, Err("nomad-bridge: there is no directory '/run/absent'\n")));
  EXPECT_EQ(RunLine("uninstall").exit_code, 2);
}

}  // namespace
}  // namespace nomad_bridge::test
