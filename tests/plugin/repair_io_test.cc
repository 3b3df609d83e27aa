// Reading and writing that fail: an error by code, never a success, a hang, or a file of somebody
// else's that is written to.
#include <csignal>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class RecordWithReadError : public World, public ::testing::WithParamInterface<const char*> {};

TEST_P(RecordWithReadError, FailsDel) {
  const json config = Publish({Port(8080, 80)});
  Attach(config);
  const std::string path = RecordOf("alloc-1");
  fs::rename(path, "/run/kept");
  fs::create_directory(path);  // can be opened, and not read

  EXPECT_THAT(RunPlugin("DEL", config.dump(), {}, GetParam()),
              Fails(104, Details(HasSubstr(path))));

  fs::remove(path);
  fs::rename("/run/kept", path);
  Detach(config);
  EXPECT_THAT(Leased(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Names,
    RecordWithReadError,
    ::testing::Values("nomad-bridge", "bridge", "host-local", "firewall", "portmap"),
    kNameOfText);

class SymbolicLink : public World, public ::testing::WithParamInterface<const char*> {};

TEST_P(SymbolicLink, IsNotFollowedInTheDataDir) {
  const auto plant = [](const std::string& target) {
    fs::create_directories(kLeases);
    fs::remove(Cat(kLeases, '/', GetParam()));
    fs::create_symlink(target, Cat(kLeases, '/', GetParam()));
  };
  ReplaceFile("/run/victim", "172.26.64.200");

  for (const std::string target : {"/run/victim", "/run/absent"}) {
    plant(target);
    const Outcome add = RunPlugin("ADD", Config());
    if (add.exit_code == 0) {
      EXPECT_NE(AddressOf(add.json), "172.26.64.201");
    } else {
      EXPECT_EQ(ErrorCode(add), 5) << add;
      EXPECT_THAT(Msg(add), HasSubstr(kLeases));
      fs::remove(Cat(kLeases, '/', GetParam()));
    }
    Detach(Config());
  }

  EXPECT_EQ(FindFile("/run/victim"), "172.26.64.200");
  EXPECT_FALSE(fs::exists("/run/absent"));
}

INSTANTIATE_TEST_SUITE_P(
    Files,
    SymbolicLink,
    ::testing::Values("lock", "172.26.64.2", "last_reserved_ip.0", "last_reserved_ip.0.new"),
    kNameOfText);

class StandardInput : public World {};

TEST_F(StandardInput, HeldOpenGivesCode11AfterTenSeconds) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  const std::string config = Config().dump();
  ASSERT_EQ(::write(write_end.get(), config.data(), config.size()), std::ssize(config));
  Command command = PluginCommand("ADD", "");
  command.in_child = [&] { ::dup2(read_end.get(), STDIN_FILENO); };
  const auto start = std::chrono::steady_clock::now();

  EXPECT_THAT(Execute(command), Fails(11, Msg(HasSubstr("'stdin'"))));

  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, std::chrono::seconds(10));
  EXPECT_LT(took, std::chrono::seconds(20));
  EXPECT_FALSE(HasInterface(container(), "eth0"));
}

class FileSizeLimit : public World {};

TEST_F(FileSizeLimit, ZeroIsAnErrorAndNoSignal) {
  const json config = Publish({Port(8080, 80)});
  UseOnce(config);
  const Snapshot before = TakeSnapshot();
  Command command = PluginCommand("ADD", config.dump());
  command.in_child = [] {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_FSIZE, &none);
  };
  EXPECT_EQ(Execute(command).exit_code, 1) << "not 128 + SIGXFSZ";

  command.in_child = nullptr;
  const std::string binary = command.argv.front();
  command.argv = {"sh", "-c", Cat("(ulimit -f 0; exec ", binary, ") | cat")};
  const Outcome add = Execute(command);
  EXPECT_EQ(ErrorCode(add), 5) << add;
  EXPECT_THAT(add, Details(HasSubstr("EFBIG")));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

}  // namespace
}  // namespace nomad_bridge::test
