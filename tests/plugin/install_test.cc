// nomad-bridge install DIR, as an administrator calls it.
#include <array>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

namespace fs = std::filesystem;

constexpr std::array kLinks = {"bridge", "host-local", "firewall", "portmap", "loopback"};
constexpr const char* kDirectory = "/run/plugins";

// What every build of ours, of any version, can be known by.
constexpr const char* kOlder =
    "#!/bin/sh\n: '\nThis file is the CNI plugin nomad-bridge, and may replace itself.\n'\n";
constexpr const char* kReferencePlugin = "#!/bin/sh\n: the reference\n";

class Install : public CliWorld {
 protected:
  [[nodiscard]] Outcome RunInstall(const std::vector<std::string>& options = {}) {
    std::vector<std::string> arguments = {"install", kDirectory};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return Run(arguments);
  }
  void MustInstall(const std::vector<std::string>& options = {}) {
    const Outcome outcome = RunInstall(options);
    ASSERT_EQ(outcome.exit_code, 0) << outcome;
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
  std::ofstream(Path(name)) << content;
  fs::permissions(Path(name), fs::perms(0755));
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

TEST_F(Install, CopiesItselfAndCreatesFiveLinksInANewDirectory) {
  const Outcome outcome = Run({"install", "/run/a/new/directory"});

  EXPECT_EQ(outcome.exit_code, 0) << outcome;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out,
            "/run/a/new/directory/nomad-bridge: this program\n"
            "/run/a/new/directory/bridge: link to nomad-bridge\n"
            "/run/a/new/directory/host-local: link to nomad-bridge\n"
            "/run/a/new/directory/firewall: link to nomad-bridge\n"
            "/run/a/new/directory/portmap: link to nomad-bridge\n"
            "/run/a/new/directory/loopback: link to nomad-bridge\n");
  EXPECT_EQ(Entries("/run/a/new/directory").size(), 6U);
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

  const Outcome again = RunInstall();

  EXPECT_EQ(again.exit_code, 0) << again;
  EXPECT_THAT(again.out, HasSubstr("/run/plugins/nomad-bridge: this program, as before\n"));
  EXPECT_THAT(again.out, HasSubstr("/run/plugins/portmap: link to nomad-bridge, as before\n"));
  EXPECT_EQ(Listing(), listing);
  EXPECT_EQ(fs::last_write_time(Path("nomad-bridge")), before);
}

TEST_F(Install, MayBeRunFromTheDirectoryItself) {
  MustInstall();
  const Outcome outcome = Execute(Command{.argv = {Path("bridge"), "install", kDirectory},
                                          .variables = {{"CNI_COMMAND", std::nullopt}}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome;
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

  const Outcome outcome = RunInstall();

  EXPECT_EQ(outcome.exit_code, 0) << outcome;
  EXPECT_THAT(outcome.out, HasSubstr("this program, in place of an older one\n"));
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

  const Outcome outcome = RunInstall();

  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "nomad-bridge: nothing was changed, as this is not ours: '/run/plugins/bridge', "
            "'/run/plugins/portmap': with --replace it is kept beside as "
            "<name>.before-nomad-bridge\n");
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

  const Outcome outcome = RunInstall({"--replace"});

  EXPECT_EQ(outcome.exit_code, 0) << outcome;
  EXPECT_THAT(outcome.out,
              HasSubstr("/run/plugins/bridge: link to nomad-bridge, what was there is kept as "
                        "bridge.before-nomad-bridge\n"));
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
  const Outcome outcome = RunInstall({"--replace"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "nomad-bridge: '/run/plugins/firewall' is a directory\n");
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
  std::ofstream(kDirectory) << "a file";
  const Outcome outcome = RunInstall();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "nomad-bridge: cannot create the directory '/run/plugins': it exists and is not a "
            "directory\n");
}

TEST_F(Install, ReportsThatItMayNotWrite) {
  fs::create_directories(kDirectory);
  host().Must({"mount", "-t", "tmpfs", "-o", "ro", "none", kDirectory});
  const Outcome read_only = RunInstall();
  EXPECT_EQ(read_only.exit_code, 1);
  EXPECT_THAT(read_only.err, HasSubstr("'/run/plugins'"));
  EXPECT_THAT(read_only.err, HasSubstr("EROFS"));
  host().Must({"umount", kDirectory});

  // From where anybody may run it: the build directory may be root's alone.
  ASSERT_EQ(Run({"install", "/run/shared"}).exit_code, 0);
  Command command = Line({"install", kDirectory});
  command.argv.front() = "/run/shared/nomad-bridge";
  command.in_child = [] { static_cast<void>(!::setuid(65534)); };
  const Outcome nobody = Execute(command);
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("cannot write into the directory '/run/plugins'"));
  EXPECT_THAT(nobody.err, HasSubstr("EACCES"));
  EXPECT_TRUE(Listing().empty());
}

TEST_F(Install, RefusesToRunBesideAnother) {
  fs::create_directories(kDirectory);
  const UniqueFd other(::open(kDirectory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
  const Outcome outcome = RunInstall();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("is another install at work there?"));
}

TEST_F(Install, LeavesTheOldProgramWhenTheDiskIsFull) {
  fs::create_directories(kDirectory);
  host().Must({"mount", "-t", "tmpfs", "-o", "size=64k", "none", kDirectory});
  Write("nomad-bridge", "#!/bin/sh\n");
  const Outcome outcome = RunInstall({"--replace"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("ENOSPC"));
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
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << why;
    EXPECT_EQ(outcome.err,
              Cat("nomad-bridge: ", why, "\nUsage: nomad-bridge install [-replace] DIR\n"));
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_FALSE(fs::exists(kDirectory));
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
  EXPECT_FALSE(fs::exists(kDirectory));
}

}  // namespace
}  // namespace nomad_bridge::test
