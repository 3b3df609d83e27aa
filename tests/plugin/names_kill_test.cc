// kill -9 in an ADD by one of the five names, and what the runtime does then: DEL of the whole
// list, without a result, and ADD again.
#include "tests/support/runtime.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

// The plugins of Nomad's list, and its IPAM plugin as a foreign interface plugin would run it.
constexpr std::array kNames = {"loopback", "bridge", "firewall", "portmap", "host-local"};

class KilledName : public World, public ::testing::WithParamInterface<const char*> {
 protected:
  static Network Ours() {
    json list = Conflist("nomad_builtin_bridge");
    json& plugins = list["plugins"];
    if (GetParam() == std::string("host-local")) {
      plugins = {{{"type", "host-local"}, {"ipam", plugins[1]["ipam"]}}};
    }
    return ByOurs(list);
  }

  [[nodiscard]] std::size_t Index() const {
    const json& plugins = network_.list.at("plugins");
    const auto found = std::find_if(plugins.begin(), plugins.end(), [](const json& plugin) {
      return plugin.at("type") == GetParam();
    });
    return static_cast<std::size_t>(found - plugins.begin());
  }

  // The plugins before it, and then itself, killed at its N-th call.
  Killing AddKilledAt(int nth) {
    json result;
    for (std::size_t i = 0; i < Index(); ++i) {
      const Outcome add = MustRunEntry("ADD", network_, i, allocation_, result);
      result = add.json;
    }
    return RunKilledAt(EntryCommand("ADD", network_, Index(), allocation_, result), nth);
  }

  // An ADD of the whole list, traffic, and a DEL that knows the result.
  void ExpectWorks() {
    const Attached attached = MustAdd(network_, allocation_);
    if (network_.list.at("plugins").size() > 1) {
      EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
      EXPECT_EQ(UdpText(outside(), kHostIp4, 8053), "name");
    }
    MustDelFrom(network_, attached);
  }

  const Network network_ = Ours();
  const Attached allocation_{.container_id = "alloc-1",
                             .netns = container().path(),
                             .port_mappings = {Port(8080, 80), Port(8053, 53, "udp")},
                             .args = NomadArgs("billing", "alloc-1")};
  const Server page_ = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  const Server name_ = Server::Start(container(), Protocol::kUdp, "0.0.0.0", 53, "name");
};

TEST_P(KilledName, LeavesOnlyWhatDelAndAddRepair) {
  constexpr int kFewest = 5;  // any command of ours makes more calls that can be seen
  ExpectWorks();              // the first one leaves behind what is shared
  const Snapshot before = TakeSnapshot();

  int nth = FirstPoint() - PointStep();
  for (bool is_killed = true; is_killed && !HasFailure();) {
    nth += PointStep();
    SCOPED_TRACE(Cat("killed at call ", nth, ", or after the one before"));
    is_killed = AddKilledAt(nth).killed;
    MustDelFrom(network_, allocation_);
    EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
    ExpectWorks();
  }
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  EXPECT_GT(nth, kFewest);
}

INSTANTIATE_TEST_SUITE_P(Each, KilledName, ::testing::ValuesIn(kNames), kNameOfText);

}  // namespace
}  // namespace nomad_bridge::test
