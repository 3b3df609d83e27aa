// An ADD that the kernel, the disk or a neighbour refuses: the error names what and why, and nothing
// is left of it.
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class RefusedAdd : public World {
 protected:
  void SetUp() override {
    neighbour_ = &AddContainer("neighbour");
    Attach(Publish({Port(9090, 80)}),
           As("neighbour", *neighbour_, NomadArgs("billing", "5f3c1a2b")));
    UseOnce(config_);
    before_ = TakeSnapshot();
  }

  void ExpectNothingLeft() {
    EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
    // And nothing is in the way once the obstacle is gone.
    Attach(config_);
  }

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")});
  Node* neighbour_ = nullptr;
  Snapshot before_;
};

// `folder` as something else while it lives: read-only, or a file system without room.
class Obstacle {
 public:
  static Obstacle ReadOnly(const std::string& folder) {
    Obstacle obstacle(folder);
    Mount(folder, folder, "", MS_BIND, "");
    Mount("", folder, "", MS_REMOUNT | MS_BIND | MS_RDONLY, "");
    return obstacle;
  }
  static Obstacle Full(const std::string& folder) {
    Obstacle obstacle(folder);
    Mount("tmpfs", folder, "tmpfs", 0, "size=8k");
    const std::string path = Cat(folder, "/ballast");
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const std::string block(4096, 'x');
    while (::write(fd.get(), block.data(), block.size()) > 0) {
    }
    return obstacle;
  }
  Obstacle(Obstacle&&) = default;
  Obstacle& operator=(Obstacle&&) = delete;
  Obstacle(const Obstacle&) = delete;
  Obstacle& operator=(const Obstacle&) = delete;
  ~Obstacle() {
    if (!folder_.empty()) {
      ::umount2(folder_.c_str(), MNT_DETACH);
    }
  }

 private:
  explicit Obstacle(std::string folder) : folder_(std::move(folder)) {}

  static void Mount(const std::string& source,
                    const std::string& folder,
                    const std::string& type,
                    unsigned long flags,
                    const char* options) {
    if (::mount(source.c_str(), folder.c_str(), type.c_str(), flags, options) != 0) {
      throw ErrnoError(Code::kInternal, Cat("cannot mount over ", folder));
    }
  }

  std::string folder_;
};

TEST_F(RefusedAdd, ByAContainerWithoutIpv6LeavesNothing) {
  const json dual = Publish({Port(8080, 80)}, DualStack());
  UseOnce(dual);
  Detach(config_);
  const Snapshot before = TakeSnapshot();
  container().SetSysctl("net/ipv6/conf/default/disable_ipv6", "1");
  {
    const Obstacle sealed = Obstacle::ReadOnly("/proc/sys");
    const Outcome add = RunPlugin("ADD", dual);
    EXPECT_EQ(ErrorCode(add), 100) << add;
    EXPECT_THAT(MsgAndDetails(add), AllOf(HasSubstr("disable_ipv6"), HasSubstr("EROFS")));
  }
  container().SetSysctl("net/ipv6/conf/default/disable_ipv6", "0");
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(RefusedAdd, ByTheKernelsRoutesLeavesNothing) {
  const Outcome add = RunPlugin(
      "ADD",
      Publish({Port(8080, 80)},
              Config({{"ipam", {{"routes", {{{"dst", "10.0.0.0/8"}, {"gw", "192.0.2.99"}}}}}}})));
  EXPECT_EQ(ErrorCode(add), 100) << add;
  EXPECT_THAT(MsgAndDetails(add), AllOf(HasSubstr("10.0.0.0/8"), HasSubstr("192.0.2.99")));
  ExpectNothingLeft();
}

TEST_F(RefusedAdd, ByABridgesOtherAddressLeavesNothing) {
  host().Must({"ip", "link", "add", "other", "address", "02:00:00:00:09:05", "type", "bridge"});
  host().Must({"ip", "address", "add", "192.0.2.1/24", "dev", "other"});
  host().Must({"ip", "link", "set", "other", "up"});
  before_ = TakeSnapshot();
  const Outcome add = RunPlugin("ADD", Config({{"bridge", "other"}, {"forceAddress", false}}));
  EXPECT_EQ(ErrorCode(add), 102) << add;
  EXPECT_THAT(MsgAndDetails(add), AllOf(HasSubstr("'other'"), HasSubstr("192.0.2.1/24")));
  ExpectNothingLeft();
}

TEST_F(RefusedAdd, ByABridgeThatIsNoneLeavesNothing) {
  const Outcome add = RunPlugin("ADD", Publish({Port(8080, 80)}, Config({{"bridge", "uplink"}})));
  EXPECT_EQ(ErrorCode(add), 7) << add;
  EXPECT_THAT(MsgAndDetails(add), AllOf(HasSubstr("'uplink'"), HasSubstr("veth")));
  ExpectNothingLeft();
}

TEST_F(RefusedAdd, ByALivingNeighboursPortLeavesNothing) {
  const Outcome add = RunPlugin("ADD", Publish({Port(8080, 80), Port(9090, 80)}));
  EXPECT_EQ(ErrorCode(add), 102) << add;
  EXPECT_THAT(Msg(add), HasSubstr("'billing'"));
  ExpectNothingLeft();
}

TEST_F(RefusedAdd, ByAReadOnlyDataDirLeavesNothing) {
  {
    const Obstacle sealed = Obstacle::ReadOnly(kLeases);
    const Outcome add = RunPlugin("ADD", config_);
    EXPECT_EQ(ErrorCode(add), 5) << add;
    EXPECT_THAT(MsgAndDetails(add), AllOf(HasSubstr(kLeases), HasSubstr("EROFS")));
  }
  ExpectNothingLeft();
}

TEST_F(RefusedAdd, ByAFullDataDirLeavesNothing) {
  {
    const Obstacle full = Obstacle::Full(kLeases);
    const Outcome add = RunPlugin("ADD", config_);
    EXPECT_EQ(ErrorCode(add), 5) << add;
    EXPECT_THAT(MsgAndDetails(add), AllOf(HasSubstr(kLeases), HasSubstr("ENOSPC")));
    EXPECT_TRUE(Leases().empty());
  }
  ExpectNothingLeft();
}

TEST_F(RefusedAdd, ByAReadOnlyRunDirectoryLeavesNothing) {
  {
    const Obstacle sealed = Obstacle::ReadOnly("/run/nomad-bridge");
    const Outcome add = RunPlugin("ADD", config_);
    EXPECT_EQ(ErrorCode(add), 5) << add;
    EXPECT_THAT(MsgAndDetails(add), AllOf(HasSubstr("/run/nomad-bridge"), HasSubstr("EROFS")));
  }
  ExpectNothingLeft();
}

TEST_F(RefusedAdd, ByAFullRunDirectoryLeavesNothing) {
  {
    const Obstacle full = Obstacle::Full(kRecords);
    const Outcome add = RunPlugin("ADD", config_);
    EXPECT_EQ(ErrorCode(add), 5) << add;
    EXPECT_THAT(MsgAndDetails(add), AllOf(HasSubstr(kRecords), HasSubstr("ENOSPC")));
    EXPECT_EQ(Entries(kRecords), std::vector<std::string>{"ballast"});
  }
  ExpectNothingLeft();
}

TEST_F(RefusedAdd, ByAFullStdoutLeavesNothing) {
  Command command = PluginCommand("ADD", config_.dump());
  command.in_child = [] { ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO); };
  const Outcome add = Execute(command);
  EXPECT_EQ(add.exit_code, 1) << add;
  EXPECT_THAT(add.err, HasSubstr("stdout"));
  ExpectNothingLeft();
}

TEST_F(RefusedAdd, ByAClosedStdoutLeavesNothing) {
  Command command = PluginCommand("ADD", config_.dump());
  command.in_child = [] { ::close(STDOUT_FILENO); };
  const Outcome add = Execute(command);
  EXPECT_EQ(add.exit_code, 1) << add;
  EXPECT_THAT(add.err, HasSubstr("stdout"));
  ExpectNothingLeft();
}

TEST_F(RefusedAdd, ByAPipeThatNobodyReadsLeavesNothing) {
  Command command = PluginCommand("ADD", config_.dump());
  command.in_child = [] {
    int ends[2] = {-1, -1};
    if (::pipe(ends) == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
    }
  };
  const Outcome add = Execute(command);
  EXPECT_EQ(add.exit_code, 1) << add;
  ExpectNothingLeft();
}

}  // namespace
}  // namespace nomad_bridge::test
