// An ADD that the kernel, the disk or a neighbour refuses: the error names what and why, and
// nothing is left of it.
#include <fcntl.h>
#include <unistd.h>

#include "tests/support/mounted.h"
#include "tests/support/refusal.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class RefusedAdd : public World {
 protected:
  void SetUp() override {
    Attach(Publish({Port(9090, 80)}),
           As("neighbour", AddContainer("neighbour"), NomadArgs("billing", "5f3c1a2b")));
    UseOnce(config_);
    host().Must({"ip", "link", "add", "other", "address", "02:00:00:00:09:05", "type", "bridge"});
    host().Must({"ip", "address", "add", "192.0.2.1/24", "dev", "other"});
    host().Must({"ip", "link", "set", "other", "up"});
    before_ = TakeSnapshot();
  }

  void ExpectNothingLeft() {
    EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
    // And nothing is in the way once the obstacle is gone.
    Attach(config_);
  }

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")});
  Snapshot before_;
};

// ---- with an error that says why

struct Obstacle : Named {
  int code;
  std::vector<std::string> expected;  // in msg or details
  json config = Publish({Port(8080, 80), Port(8053, 53, "udp")});
  std::string read_only = {};  // a directory that is
  std::string full = {};       // a directory whose file system has no room
};

std::vector<Obstacle> Obstacles() {
  const json web = Obstacle().config;
  const json route = {{"dst", "10.0.0.0/8"}, {"gw", "192.0.2.99"}};
  return {{"TheKernelsRoutes",
           100,
           {"10.0.0.0/8", "192.0.2.99"},
           Publish({Port(8080, 80)}, Config({{"ipam", {{"routes", {route}}}}}))},
          {"ABridgesOtherAddress",
           102,
           {"'other'", "192.0.2.1/24"},
           Config({{"bridge", "other"},
                   {"forceAddress", false},
                   {"ipam", {{"subnet", "192.0.2.0/25"}, {"gateway", "192.0.2.2"}}}})},
          {"ABridgeThatIsNone",
           7,
           {"'uplink'", "veth"},
           Publish({Port(8080, 80)}, Config({{"bridge", "uplink"}}))},
          {"ALivingNeighboursPort", 102, {"'billing'"}, Publish({Port(8080, 80), Port(9090, 80)})},
          {"AReadOnlyDataDir", 5, {kLeases, "EROFS"}, web, kLeases},
          {"AFullDataDir", 5, {kLeases, "ENOSPC"}, web, "", kLeases},
          {"AReadOnlyRunDirectory", 5, {"/run/nomad-bridge", "EROFS"}, web, "/run/nomad-bridge"},
          {"AFullRunDirectory", 5, {kRecords, "ENOSPC"}, web, "", kRecords}};
}

class ObstructedAdd : public RefusedAdd, public ::testing::WithParamInterface<Obstacle> {};

TEST_P(ObstructedAdd, NamesTheObstacleAndLeavesNothing) {
  const Obstacle& obstacle = GetParam();
  const std::string& full = obstacle.full;
  {
    std::optional<Mounted> mounted;
    if (!obstacle.read_only.empty()) {
      mounted.emplace(Words(Cat("-o bind,ro ", obstacle.read_only)), obstacle.read_only);
    } else if (!full.empty()) {
      mounted.emplace(Words("-t tmpfs -o size=8k none"), full);
      static_cast<void>(host().Run({"sh", "-c", Cat("cat /dev/zero > ", full, "/ballast")}));
    }

    const Outcome add = RunPlugin("ADD", obstacle.config);

    EXPECT_EQ(ErrorCode(add), obstacle.code) << add;
    for (const std::string& words : obstacle.expected) {
      EXPECT_THAT(MsgAndDetails(add), HasSubstr(words));
    }
    if (!full.empty()) {
      EXPECT_THAT(Entries(full), Each(AnyOf("ballast", "lock")));
    }
  }
  ExpectNothingLeft();
}

INSTANTIATE_TEST_SUITE_P(Obstacles, ObstructedAdd, ::testing::ValuesIn(Obstacles()), kNameOf);

TEST_F(RefusedAdd, LeavesNothingIfTheContainerHasNoIpv6) {
  const json dual = Publish({Port(8080, 80)}, DualStack());
  UseOnce(dual);
  Detach(config_);
  const Snapshot before = TakeSnapshot();
  container().SetSysctl("net/ipv6/conf/default/disable_ipv6", "1");
  {
    const Mounted sealed({"-o", "bind,ro", "/proc/sys"}, "/proc/sys");
    // Else it opens settings in an instance of procfs of its own.
    const Command add = UnderStrace(
        PluginCommand("ADD", dual.dump()), "/run/calls", {"-e", "inject=fsopen:error=EPERM"});
    EXPECT_THAT(Execute(add),
                Fails(100, MsgAndDetails(AllOf(HasSubstr("disable_ipv6"), HasSubstr("EROFS")))));
  }
  container().SetSysctl("net/ipv6/conf/default/disable_ipv6", "0");
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

// ---- because its result cannot be written

struct Stdout : Named {
  void (*prepare)();        // in the child
  const char* reason = "";  // on stderr
};

class AddWithoutStdout : public RefusedAdd, public ::testing::WithParamInterface<Stdout> {};

TEST_P(AddWithoutStdout, LeavesNothing) {
  Command command = PluginCommand("ADD", config_.dump());
  command.in_child = GetParam().prepare;
  EXPECT_THAT(Execute(command), Exits(1, Err(HasSubstr(GetParam().reason))));
  ExpectNothingLeft();
}

void CloseStdout() {
  ::close(STDOUT_FILENO);
}

void FillStdout() {
  ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
}

void LetNobodyReadStdout() {
  int ends[2] = {-1, -1};
  if (::pipe(ends) == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         AddWithoutStdout,
                         ::testing::Values(Stdout{"Full", FillStdout, "stdout"},
                                           Stdout{"Closed", CloseStdout, "stdout"},
                                           Stdout{"PipeThatNobodyReads", LetNobodyReadStdout}),
                         kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
