// STATUS: fails only when an ADD could not possibly work, and says why.
#include <sys/mount.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/support/plugin_world.h"

namespace nomad_bridge::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class StatusTest : public PluginWorld {
 protected:
  // A runtime gives STATUS no container.
  Command StatusCommand(const json& config) {
    return PluginCommand("STATUS",
                         config.dump(),
                         {{"CNI_CONTAINERID", std::nullopt},
                          {"CNI_NETNS", std::nullopt},
                          {"CNI_IFNAME", std::nullopt}});
  }
  Outcome Status(const json& config) { return Execute(StatusCommand(config)); }

  Outcome StatusWithout(const std::string& capability) {
    Command command = StatusCommand(Config("1.1.0"));
    const std::vector<std::string> prefix = {"setpriv", "--bounding-set", Cat("-", capability)};
    command.argv.insert(command.argv.begin(), prefix.begin(), prefix.end());
    return Execute(command);
  }
};

void ExpectUnavailable(const Outcome& status, const std::string& reason) {
  EXPECT_EQ(status.exit_code, 1);
  ASSERT_TRUE(status.json.is_object()) << status;
  EXPECT_EQ(status.json.at("code"), 50);
  EXPECT_THAT(Cat(status.json.at("msg").get<std::string>(), ": ", status.json.value("details", "")),
              HasSubstr(reason));
}

TEST_F(StatusTest, IsFineAndSilentOnABareMachineAndChangesNothing) {
  const Snapshot before = TakeSnapshot();
  const Outcome status = Status(Config("1.1.0"));
  EXPECT_EQ(status.exit_code, 0) << status;
  EXPECT_EQ(status.out, "");
  EXPECT_EQ(status.err, "");
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(StatusTest, ManyAtOnceDoNotDisturbEachOther) {
  std::vector<Process> running;
  for (int i = 0; i < 100; ++i) {
    running.push_back(Process::Start(StatusCommand(Config("1.1.0"))));
  }
  for (Process& status : running) {
    const Outcome outcome = status.Wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome;
  }
}

TEST_F(StatusTest, IsFineWithAFullPool) {
  // Nomad asks before every DEL and skips it when the answer is no: that would keep the pool full
  // for ever.
  json config = Config("1.1.0");
  config["ipam"]["ranges"] = {
      {{{"subnet", "10.8.0.0/24"}, {"rangeStart", "10.8.0.9"}, {"rangeEnd", "10.8.0.9"}}}};
  Attach(config);
  Node& second = AddContainer("second");
  ASSERT_EQ(RunPlugin("ADD", config, As("alloc-2", second)).json.at("code"), 101);
  EXPECT_EQ(Status(config).exit_code, 0);
}

TEST_F(StatusTest, IsFineWithAConfigThatAddWouldRefuse) {
  json config = Config("1.1.0");
  config["ipam"]["ranges"] = 5;
  EXPECT_EQ(Status(config).exit_code, 0) << Status(config);
}

TEST_F(StatusTest, MissesCapNetAdmin) {
  ExpectUnavailable(StatusWithout("net_admin"), "CAP_NET_ADMIN");
}

TEST_F(StatusTest, MissesCapSysAdmin) {
  ExpectUnavailable(StatusWithout("sys_admin"), "CAP_SYS_ADMIN");
}

TEST_F(StatusTest, NamesADataDirThatCannotBeWritten) {
  ASSERT_EQ(::mkdir("/run/readonly", 0755), 0);
  ASSERT_EQ(::mount("tmpfs", "/run/readonly", "tmpfs", MS_RDONLY, nullptr), 0);
  json config = Config("1.1.0");
  config["ipam"]["dataDir"] = "/run/readonly";
  ExpectUnavailable(Status(config), "/run/readonly");
}

TEST_F(StatusTest, NamesRecordsThatCannotBeWritten) {
  ASSERT_EQ(::mkdir("/run/nomad-bridge", 0755), 0);
  ASSERT_EQ(::mount("tmpfs", "/run/nomad-bridge", "tmpfs", MS_RDONLY, nullptr), 0);
  ExpectUnavailable(Status(Config("1.1.0")), "/run/nomad-bridge");
}

}  // namespace
}  // namespace nomad_bridge::test
