// VLANs of bridge ports, read back with bridge(8). Only under a kernel that has them: see
// tests/with-kernel.

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

// LockPort() must then be called again.
TEST_F(RtnlVlan, LockIsIncompleteInAVlanThatThePortGetsLater) {
  AddPort("port");
  host().Must(Words("bridge link set dev port locked on"));
  if (host().Must(Words("bridge -d link show dev port")).find("locked on") == std::string::npos) {
    return;  // this kernel cannot: rtnl_bridge_test.cc
  }
  for (const std::uint16_t last : std::initializer_list<std::uint16_t>{9, 10}) {
    Set("port", {.untagged = 100, .tagged = {{7, last}}});
    EXPECT_FALSE(net_.IsPortLocked(Port("port"), kHostMac));
    net_.LockPort(Port("port"), kHostMac);
    EXPECT_TRUE(net_.IsPortLocked(Port("port"), kHostMac));
  }
}

}  // namespace
}  // namespace nomad_bridge::test
