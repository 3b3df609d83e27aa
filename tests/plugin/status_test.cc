// STATUS: fails only when an ADD could not possibly work, and names the reason.
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class StatusCommand : public World {
 protected:
  Command CommandFor(const json& config) {
    return PluginCommand("STATUS", config.dump(), kNoContainer);
  }
  Outcome Status(const json& config) { return Execute(CommandFor(config)); }

  Outcome StatusWithout(const std::string& capability) {
    Command command = CommandFor(Config());
    const std::vector<std::string> prefix = {"setpriv", "--bounding-set", Cat("-", capability)};
    command.argv.insert(command.argv.begin(), prefix.begin(), prefix.end());
    return Execute(command);
  }
};

void ExpectUnavailable(const Outcome& status, const std::string& reason) {
  EXPECT_EQ(status.exit_code, 1);
  ASSERT_TRUE(status.json.is_object()) << status;
  EXPECT_EQ(ErrorCode(status), 50);
  EXPECT_THAT(MsgAndDetails(status), HasSubstr(reason));
}

TEST_F(StatusCommand, IsFineAndSilentOnABareMachineAndChangesNothing) {
  const Snapshot before = TakeSnapshot();
  EXPECT_THAT(Status(Config()), Exits(0, Out(""), Err("")));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(StatusCommand, RunsManyTimesAtOnce) {
  std::vector<Process> running;
  running.reserve(100);
  for (int i = 0; i < 100; ++i) {
    running.push_back(Process::Start(CommandFor(Config())));
  }
  for (Process& status : running) {
    EXPECT_THAT(status.Wait(), Exits(0));
  }
}

TEST_F(StatusCommand, IsFineWithAFullPool) {
  // Nomad asks before every DEL and skips it when the answer is no: that would keep the pool full
  // for ever.
  const json config = Config(
      R"({"ipam": {"subnet": "10.8.0.0/24", "rangeStart": "10.8.0.9", "rangeEnd": "10.8.0.9"}})");
  Attach(config);
  ASSERT_EQ(RunPlugin("ADD", config, As("alloc-2", AddContainer("second"))).json.at("code"), 101);
  EXPECT_EQ(Status(config).exit_code, 0);
}

// The same: a DEL gives back what there is too little of.
TEST_F(StatusCommand, IsFineWithoutInodes) {
  const json result = Attach(Config());
  host().Shell(
      "all=$(stat -f -c %c /run); free=$(stat -f -c %d /run); "
      "mount -o remount,nr_inodes=$((all - free + 8)) /run; mkdir /run/fill; "
      "i=0; while touch /run/fill/$i 2>/dev/null; do i=$((i + 1)); done");
  EXPECT_THAT(Status(Config()), Exits(0));
  EXPECT_THAT(MustCheck(Config(), result), Err(""));
  Detach(Config());
}

TEST_F(StatusCommand, IsFineWithAConfigThatAddWouldRefuse) {
  const json config = Config(R"({"ipam": {"ranges": 5}})");
  EXPECT_EQ(Status(config).exit_code, 0) << Status(config);
}

TEST_F(StatusCommand, NamesAMissingCapNetAdmin) {
  ExpectUnavailable(StatusWithout("net_admin"), "CAP_NET_ADMIN");
}

TEST_F(StatusCommand, NamesAMissingCapSysAdmin) {
  ExpectUnavailable(StatusWithout("sys_admin"), "CAP_SYS_ADMIN");
}

TEST_F(StatusCommand, NamesADataDirThatCannotBeWritten) {
  ASSERT_EQ(::mkdir("/run/readonly", 0755), 0);
  ASSERT_EQ(::mount("tmpfs", "/run/readonly", "tmpfs", MS_RDONLY, nullptr), 0);
  ExpectUnavailable(Status(Config(R"({"ipam": {"dataDir": "/run/readonly"}})")), "/run/readonly");
}

TEST_F(StatusCommand, NamesRecordsThatCannotBeWritten) {
  ASSERT_EQ(::mkdir("/run/nomad-bridge", 0755), 0);
  ASSERT_EQ(::mount("tmpfs", "/run/nomad-bridge", "tmpfs", MS_RDONLY, nullptr), 0);
  ExpectUnavailable(Status(Config()), "/run/nomad-bridge");
}

}  // namespace
}  // namespace nomad_bridge::test
