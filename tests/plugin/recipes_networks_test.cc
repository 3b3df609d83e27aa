// Several networks on one node: apart from each other, beside each other, and in one allocation.
#include "tests/plugin/recipes_world.h"

namespace nomad_bridge::test {
namespace {

constexpr std::uint16_t kPort = 9000;

class SeveralNetworks : public Recipe {
 protected:
  // An allocation of `network` with a server on kPort.
  std::string AddServer(const std::string& network,
                        const Node& node,
                        const std::vector<json>& ports = {}) {
    const Attached attached = MustAdd(Run(network), Allocation(node.name(), node, ports));
    Serve(node, Protocol::kTcp, {"0.0.0.0"}, kPort, node.name());
    return AddressOf(attached.result);
  }

  Node& dev_ = AddContainer("dev");
};

TEST_F(SeveralNetworks, OfNomadNamespacesAreApart) {
  Node& neighbour = AddContainer("neighbour");
  const std::string prod = AddServer("prod", container(), {Port(8080, kPort)});
  const std::string dev = AddServer("dev", dev_);
  MustAdd(Run("prod"), Allocation("neighbour", neighbour));

  EXPECT_EQ(TcpText(neighbour, prod, kPort), container().name()) << "within a network";
  EXPECT_TRUE(IsSilent(dev_, {.to = prod, .port = kPort}));
  EXPECT_TRUE(IsSilent(neighbour, {.to = dev, .port = kPort}));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), container().name()) << "published to the world";
  EXPECT_TRUE(Ping(dev_, kOutsideIp4));
}

TEST_F(SeveralNetworks, ReachEachOtherUnlessAPolicySaysOtherwise) {
  const std::string one = AddServer("nomad", container());
  const std::string other = AddServer("dual-stack", dev_);

  EXPECT_EQ(TcpText(dev_, one, kPort), container().name());
  EXPECT_EQ(TcpText(container(), other, kPort), dev_.name());
}

// What jobs/second.nomad.hcl does before its tasks start.
TEST_F(SeveralNetworks, GiveOneAllocationTwoInterfaces) {
  const std::string far = AddServer("second", dev_);
  Attached first = MustAdd(Run("nomad"), Allocation("web", container(), {Port(8080, kPort)}));
  Attached second = Allocation("web", container());
  second.ifname = "eth1";

  second = MustAdd(Run("second"), second);

  EXPECT_EQ(AddressesOn(container(), "eth1"), AddressesIn(second.result));
  EXPECT_EQ(RoutesTo(container(), "default").size(), 1U) << "by the first";
  EXPECT_EQ(At(RoutesTo(container(), "default"), "/0/dev"), "eth0");
  EXPECT_EQ(TcpText(container(), far, kPort), dev_.name());
  Serve(container(), Protocol::kTcp, {"0.0.0.0"}, kPort, "web");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  MustCheckIn(Run("nomad"), first);
  MustCheckIn(Run("second"), second);
  MustDelFrom(Run("second"), second);
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web") << "the first stays";
  MustDelFrom(Run("nomad"), first);
}

// What node_exporter's --collector.netdev.label-ifalias shows: alias and counters of the host veth.
TEST_F(SeveralNetworks, CountTrafficByJob) {
  const Attached web = MustAdd(Run("nomad"), Allocation("web", container()));
  const auto statistics = [&] {
    return host().Json({"ip", "-j", "-s", "link", "show", HostVethOf(web.result)}).at(0);
  };
  const std::uint64_t before = At(statistics(), "/stats64/rx/bytes").get<std::uint64_t>();

  EXPECT_TRUE(Ping(container(), kOutsideIp4));

  EXPECT_GT(At(statistics(), "/stats64/rx/bytes").get<std::uint64_t>(), before);
  EXPECT_THAT(statistics().at("ifalias").get<std::string>(),
              AllOf(HasSubstr("job=web"), HasSubstr("group=api")));
}

}  // namespace
}  // namespace nomad_bridge::test
