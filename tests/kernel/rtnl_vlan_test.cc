// VLANs of bridge ports, read back with bridge(8) and with traffic. Only under a kernel that has
// them: see tests/with-kernel.

#include "tests/kernel/rtnl_world.h"

namespace nomad_bridge::test {
namespace {

class RtnlVlan : public RtnlWorld {
 protected:
  // 'br0' filters VLANs.
  RtnlVlan() {
    host().Must({"ip", "link", "add", "br0", "type", "bridge", "vlan_filtering", "1"});
    host().Must({"ip", "link", "set", "br0", "up"});
  }

  struct Range {
    int first;
    int last;
    std::string flags;
  };
  static std::string TextOf(const std::vector<Range>& ranges) {
    std::string text;
    for (const Range& range : ranges) {
      text += Cat(text.empty() ? "" : ", ", range.first);
      text += range.first != range.last ? Cat("-", range.last) : "";
      text += range.flags;
    }
    return text;
  }

  // "1 PVID untagged, 10-12": "bridge vlan show", equal neighbours as one range.
  [[nodiscard]] std::string Shown(const std::string& port) {
    std::vector<Range> ranges;
    for (const json& link : host().Json({"bridge", "-j", "vlan", "show", "dev", port})) {
      for (const json& vlan : link.at("vlans")) {
        const int id = vlan.at("vlan");
        std::string flags;
        for (const json& flag : vlan.value("flags", json::array())) {
          flags += flag == "PVID" ? " PVID" : " untagged";
        }
        if (!ranges.empty() && ranges.back().last == id - 1 && ranges.back().flags == flags) {
          ranges.back().last = id;
        } else {
          ranges.push_back({id, id, flags});
        }
      }
    }
    return TextOf(ranges);
  }

  // The same of what ours reads.
  [[nodiscard]] std::string Read(const std::string& port) {
    std::string text;
    for (const rtnl::Vlan& vlan : net_.Vlans(Port(port))) {
      text += Cat(text.empty() ? "" : ", ", vlan.ids.first);
      text += vlan.ids.first != vlan.ids.last ? Cat("-", vlan.ids.last) : "";
      text += Cat(vlan.pvid ? " PVID" : "", vlan.untagged ? " untagged" : "");
    }
    return text;
  }

  void Set(const std::string& port, const PortVlans& vlans) {
    net_.SetPortVlans(Port(port), vlans);
    EXPECT_TRUE(net_.HasPortVlans(Port(port), vlans)) << Shown(port);
    EXPECT_EQ(Read(port), Shown(port));
  }
};

TEST_F(RtnlVlan, MembershipIsSet) {
  AddPort("port");
  ASSERT_EQ(Shown("port"), "1 PVID untagged");
  EXPECT_EQ(Read("port"), "1 PVID untagged");
  EXPECT_FALSE(net_.HasPortVlans(Port("port"), {.untagged = 100}));

  Set("port", {.untagged = 100});
  EXPECT_EQ(Shown("port"), "100 PVID untagged");

  Set("port", {.untagged = 1, .tagged = {{10, 12}, {20, 20}, {4000, 4094}}});
  EXPECT_EQ(Shown("port"), "1 PVID untagged, 10-12, 20, 4000-4094");

  Set("port", {.tagged = {{11, 11}}});
  EXPECT_EQ(Shown("port"), "11");

  Set("port", {.untagged = 11, .tagged = {{10, 12}}});
  EXPECT_EQ(Shown("port"), "10, 11 PVID untagged, 12");

  Set("port", {});
  EXPECT_EQ(Shown("port"), "");
}

TEST_F(RtnlVlan, MembershipsStayIfAskedTo) {
  AddPort("port");

  Set("port", {.tagged = {{7, 7}}, .keep_default = true});
  EXPECT_EQ(Shown("port"), "1 PVID untagged, 7");

  Set("port", {.untagged = 100, .keep_default = true});
  EXPECT_EQ(Shown("port"), "1 untagged, 7, 100 PVID untagged");
}

TEST_F(RtnlVlan, MembershipIsFoundDifferentAndRepaired) {
  AddPort("port");
  const PortVlans wanted{.untagged = 5, .tagged = {{10, 20}}};
  Set("port", wanted);
  for (const char* damage : {"bridge vlan del dev port vid 15",
                             "bridge vlan del dev port vid 5",
                             "bridge vlan add dev port vid 5 untagged",
                             "bridge vlan add dev port vid 12 untagged",
                             "bridge vlan add dev port vid 30",
                             "bridge vlan add dev port vid 30 pvid untagged"}) {
    host().Must({"sh", "-c", damage});
    EXPECT_FALSE(net_.HasPortVlans(Port("port"), wanted)) << damage;

    Set("port", wanted);
    EXPECT_EQ(Shown("port"), "5 PVID untagged, 10-20") << damage;
  }
}

TEST_F(RtnlVlan, RangesMayExceedOneMessage) {
  AddPort("port");
  PortVlans wanted{.untagged = 4094};
  for (std::uint16_t id = 1; id < 2000; id += 2) {
    wanted.tagged.push_back({id, id});
  }

  Set("port", wanted);

  EXPECT_EQ(net_.Vlans(Port("port")).size(), 1001U);
  Set("port", {.untagged = 4094});
  EXPECT_EQ(Shown("port"), "4094 PVID untagged");
}

TEST_F(RtnlVlan, PassesFramesToItsMembersOnly) {
  Node& same = AddContainer("same");
  Node& other = AddContainer("other");
  Attach(container(), "port-a", "10.0.0.10");
  Attach(same, "port-b", "10.0.0.11");
  Attach(other, "port-c", "10.0.0.12");
  Set("port-a", {.untagged = 100});
  Set("port-b", {.untagged = 100});
  Set("port-c", {.untagged = 200});

  EXPECT_TRUE(Ping(container(), "10.0.0.11"));
  EXPECT_FALSE(Ping(container(), "10.0.0.12"));
}

TEST_F(RtnlVlan, TrunkReachesAllOfItsVlans) {
  Node& member = AddContainer("member");
  Attach(container(), "port-a", "10.9.9.9");
  Attach(member, "port-b", "10.0.0.11");
  container().Must(Words("ip link add link eth0 name eth0.100 type vlan id 100"));
  container().Must({"ip", "address", "add", "10.0.0.10/24", "dev", "eth0.100"});
  container().Must({"ip", "link", "set", "eth0.100", "up"});
  Set("port-a", {.untagged = 1, .tagged = {{99, 101}}});
  Set("port-b", {.untagged = 100});

  EXPECT_TRUE(Ping(container(), "10.0.0.11"));

  Set("port-b", {.untagged = 102});
  EXPECT_FALSE(Ping(container(), "10.0.0.11"));
}

TEST_F(RtnlVlan, IsReachedFromTheNodeByASubInterface) {
  Attach(container(), "port-a", "10.0.0.10");
  Set("port-a", {.untagged = 7});
  const PortVlans wanted{.tagged = {{7, 7}}, .keep_default = true};

  Set("br0", wanted);
  EXPECT_EQ(Shown("br0"), "1 PVID untagged, 7");
  EXPECT_TRUE(net_.CreateVlanLink("br0.7", Port("br0"), 7));
  EXPECT_FALSE(net_.CreateVlanLink("br0.7", Port("br0"), 7));
  net_.Change(Port("br0.7"), {.up = true});
  net_.EnsureAddress(Port("br0.7"), Cidr::Parse("10.0.0.1/24").value());

  EXPECT_EQ(LinkOn(host(), "br0.7").at("link"), "br0");
  EXPECT_EQ(LinkOn(host(), "br0.7").at("linkinfo").at("info_data").at("id"), 7);
  EXPECT_EQ(Port("br0.7").vlan, 7);
  EXPECT_EQ(Port("br0.7").peer, Port("br0").index);
  EXPECT_EQ(Port("br0.7").mac, Port("br0").mac);
  EXPECT_TRUE(Ping(container(), "10.0.0.1"));

  host().Must({"bridge", "vlan", "del", "dev", "br0", "vid", "7", "self"});
  EXPECT_FALSE(net_.HasPortVlans(Port("br0"), wanted));
  EXPECT_FALSE(Ping(container(), "10.0.0.1"));
}

TEST_F(RtnlVlan, LockHoldsInTheVlanOfAPort) {
  const Mac honest = Mac::ForName("honest");
  Node& member = AddContainer("member");
  Attach(container(), "port-a", "10.0.0.10");
  Attach(member, "port-b", "10.0.0.11");
  container().Must({"ip", "link", "set", "eth0", "address", honest.Text()});
  Set("port-a", {.untagged = 100, .tagged = {{7, 9}}});
  Set("port-b", {.untagged = 100});
  host().Must({"bridge", "link", "set", "dev", "port-b", "locked", "on"});
  if (host().Must({"bridge", "-d", "link", "show", "dev", "port-b"}).find("locked on") ==
      std::string::npos) {
    return;  // this kernel cannot: rtnl_bridge_test.cc
  }
  host().Must({"bridge", "link", "set", "dev", "port-b", "locked", "off"});

  net_.LockPort(Port("port-a"), honest);
  EXPECT_TRUE(net_.IsPortLocked(Port("port-a"), honest));
  EXPECT_TRUE(Ping(container(), "10.0.0.11"));

  container().Must({"ip", "link", "set", "eth0", "address", Mac::ForName("false").Text()});
  container().Must({"ip", "neighbour", "flush", "all"});
  EXPECT_FALSE(Ping(container(), "10.0.0.11"));

  // For a VLAN that the port gets later, LockPort() must be called again.
  Set("port-a", {.untagged = 100, .tagged = {{7, 10}}});
  EXPECT_FALSE(net_.IsPortLocked(Port("port-a"), honest));
  net_.LockPort(Port("port-a"), honest);
  EXPECT_TRUE(net_.IsPortLocked(Port("port-a"), honest));
}

}  // namespace
}  // namespace nomad_bridge::test
