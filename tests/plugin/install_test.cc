// nomad-bridge install DIR, as an administrator calls it.
#include <fcntl.h>
#include <unistd.h>

#include "tests/plugin/install_world.h"

namespace nomad_bridge::test {
namespace {

// ---- what it installs

TEST_F(Install, CopiesItselfAndCreatesFiveLinksInANewDirectory) {
  EXPECT_THAT(Run({"install", "/run/a/new/directory"}),
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

TEST_F(Install, CanBeRepeated) {
  MustInstall();
  const auto listing = Listing();
  MustInstall();
  EXPECT_EQ(Listing(), listing);
}

TEST_F(Install, MayBeRunFromTheDirectoryItself) {
  MustInstall();
  EXPECT_THAT(Execute(Command{.argv = {Path("bridge"), "install", kDirectory},
                              .variables = {{"CNI_COMMAND", std::nullopt}}}),
              Exits(0));
  ExpectInstalled();
}

// Beside the reference plugins, which Nomad's own mode goes on using.
TEST_F(Install, CopiesItselfAloneWithTheFlagForThat) {
  for (const char* const name : kLinks) {
    Write(name, kReferencePlugin);
  }
  const auto theirs = Listing();
  EXPECT_THAT(RunInstall({"-only"}),
              Exits(0, Err(""), Out("/run/plugins/nomad-bridge: this program\n")));
  auto both = theirs;
  both["nomad-bridge"] = Built();
  EXPECT_EQ(Listing(), both);
  EXPECT_THAT(About("nomad-bridge"), StartsWith("CNI nomad-bridge plugin v"));

  MustInstall({"-replace"});
  const auto linked = Listing();
  MustInstall({"-only"});
  EXPECT_EQ(Listing(), linked) << "links of ours stay";
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

  EXPECT_THAT(RunInstall(), Exits(0, Out(HasSubstr("this program\n"))));

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

// ---- the command line

TEST_F(Install, NamesInvalidArgumentsAndDoesNothing) {
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
              Err(Cat(
                  "nomad-bridge: ", why, "\nUsage: nomad-bridge install [-only] [-replace] DIR\n")),
              Out("")))
        << why;
  }
  EXPECT_TRUE(fs::is_empty(kDirectory));
}

TEST_F(Install, TakesItsFlagWithOneDashBeforeTheDirectory) {
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

}  // namespace
}  // namespace nomad_bridge::test
