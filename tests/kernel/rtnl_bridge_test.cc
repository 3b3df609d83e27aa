// What not every kernel can do with a bridge, and the way out. ip(8) and bridge(8) tell whether
// this kernel can; if not, ours must say so.

#include "tests/kernel/rtnl_world.h"

namespace nomad_bridge::test {
namespace {

class RtnlBridge : public RtnlWorld {
 protected:
  // 'br0' with 10.0.0.1, and a container at port 'port-a'.
  RtnlBridge() {
    Bridge();
    host().Must({"ip", "address", "add", "10.0.0.1/24", "dev", "br0"});
    Attach(container(), "port-a", "10.0.0.10");
  }
};

class RtnlRouteLookup : public RtnlBridge {
 protected:
  [[nodiscard]] std::optional<int> WayTo(const std::string& address) {
    return net_.LookupOutputInterface(Ip::Parse(address).value());
  }
};

TEST_F(RtnlBridge, LocksAPortOrNamesTheKernelThatCan) {
  host().Must(Words("bridge link set dev port-a locked on"));
  const std::string shown = host().Must(Words("bridge -d link show dev port-a"));
  host().Must(Words("bridge link set dev port-a locked off"));
  if (shown.find("locked on") != std::string::npos) {
    net_.LockPort(Port("port-a"), kBridgeMac);
    EXPECT_TRUE(net_.IsPortLocked(Port("port-a"), kBridgeMac));
    EXPECT_FALSE(net_.IsPortLocked(Port("port-a"), kHostMac));
    return;
  }
  EXPECT_THAT(Thrown([&] { net_.LockPort(Port("port-a"), kBridgeMac); }),
              IsError(Code::kKernel,
                      Cat("cannot lock bridge port 'port-a' to ", kBridgeMac),
                      "'macspoofchk' needs locked bridge ports, which Linux has since 5.18"));
}

TEST_F(RtnlBridge, FiltersVlansOrNamesTheMissingKernelOption) {
  if (host().Run({"ip", "link", "add", "br1", "type", "bridge", "vlan_filtering", "1"}).exit_code ==
      0) {
    EXPECT_TRUE(net_.CreateBridge("nomad", kBridgeMac, 0, true));
    EXPECT_EQ(LinkOn(host(), "nomad").at("linkinfo").at("info_data").at("vlan_filtering"), 1);
    EXPECT_TRUE(net_.FindLink("nomad")->vlan_filtering);
    EXPECT_FALSE(net_.FindLink("br0")->vlan_filtering);
    return;
  }
  const auto is_said = [](const Error& error) {
    EXPECT_EQ(error.code(), Code::kKernel);
    EXPECT_THAT(error.details(), HasSubstr("'vlan' and 'vlanTrunk' need"));
    EXPECT_THAT(error.details(), HasSubstr("CONFIG_BRIDGE_VLAN_FILTERING"));
  };
  is_said(Thrown([&] { return net_.CreateBridge("nomad", kBridgeMac, 0, true); }));
  EXPECT_TRUE(LinkOn(host(), "nomad").is_null());
  is_said(Thrown([&] { net_.SetPortVlans(Port("port-a"), {.untagged = 7}); }));
  EXPECT_TRUE(net_.Vlans(Port("port-a")).empty());
  EXPECT_TRUE(net_.HasPortVlans(Port("port-a"), {}));
}

TEST_F(RtnlRouteLookup, FindsTheOutputInterface) {
  const int uplink = Port("uplink").index;
  EXPECT_EQ(WayTo("10.0.0.99"), Port("br0").index);
  EXPECT_EQ(WayTo(kOutsideIp4), uplink);
  EXPECT_EQ(WayTo("8.8.8.8"), uplink) << "by the default route";
  EXPECT_EQ(WayTo(kOutsideIp6), uplink);
  EXPECT_EQ(WayTo("2001:db8:ffff::1"), uplink);
  EXPECT_EQ(WayTo("10.0.0.1"), Port("lo").index) << "the host's own";
  EXPECT_EQ(WayTo("127.0.0.1"), Port("lo").index);
}

TEST_F(RtnlRouteLookup, FindsNothingForAnUnreachableAddress) {
  for (const char* type : {"unreachable", "prohibit", "blackhole"}) {
    host().Must({"ip", "route", "add", type, "192.0.2.0/24"});
    host().Must({"ip", "route", "add", type, "2001:db8:2::/64"});
    EXPECT_EQ(WayTo("192.0.2.1"), std::nullopt) << type;
    EXPECT_EQ(WayTo("2001:db8:2::1"), std::nullopt) << type;
    host().Must({"ip", "route", "delete", type, "192.0.2.0/24"});
    host().Must({"ip", "route", "delete", type, "2001:db8:2::/64"});
  }

  host().Must({"ip", "route", "delete", "default"});
  host().Must({"ip", "-6", "route", "delete", "default"});
  EXPECT_EQ(WayTo("192.0.2.1"), std::nullopt);
  EXPECT_EQ(WayTo("2001:db8:2::1"), std::nullopt);
}

}  // namespace
}  // namespace nomad_bridge::test
