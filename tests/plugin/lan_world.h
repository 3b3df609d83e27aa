// A bridge of the node's own that leads to the LAN. The bridge has the node's address and its
// default route.
#pragma once

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {

constexpr std::uint16_t kPort = 9000;  // of the servers here

class LanWorld : public CliWorld {
 protected:
  // The host's uplink becomes a port of "lan", which has its addresses and routes from then on. A
  // firewall beside all cases leaves the LAN to its operator, who opens it (docs/differences.md).
  LanWorld() {
    const Node& node = host();
    node.Must(Words("ip link add lan type bridge"));
    node.SetSysctl("net/ipv6/conf/lan/accept_dad", "0");
    node.Must(Words("ip link set lan up"));
    OpenFirewall("lan");
    node.Must(Words("ip address flush dev uplink scope global"));
    node.Must(Words("ip link set uplink master lan"));
    node.Must(Words(Cat("ip address add ", kHostIp4, "/24 dev lan")));
    node.Must(Words(Cat("ip address add ", kHostIp6, "/64 dev lan nodad")));
    node.Must(Words(Cat("ip route replace default via ", kOutsideIp4)));
    node.Must(Words(Cat("ip -6 route replace default via ", kOutsideIp6)));
    Serve(outside(), Protocol::kTcp, {kOutsideIp4, kOutsideIp6}, kPort, "outside");
  }

  // Addresses of the LAN, whose router is the machine outside.
  static json OnLan(const json& changes = json::object()) {
    json config = DualStack({{"name", "lan"}, {"bridge", "lan"}, {"isGateway", false}});
    config["ipam"]["ranges"] = {{{{"subnet", "198.51.100.0/24"},
                                  {"rangeStart", "198.51.100.50"},
                                  {"gateway", kOutsideIp4}}},
                                {{{"subnet", "2001:db8:100::/64"},
                                  {"rangeStart", "2001:db8:100::50"},
                                  {"gateway", kOutsideIp6}}}};
    config.merge_patch(changes);
    return config;
  }
  static json OnLanBehindTheNode() {
    json config = OnLan({{"isGateway", true}});
    config["ipam"]["ranges"][0][0]["gateway"] = kHostIp4;
    config["ipam"]["ranges"][1][0]["gateway"] = kHostIp6;
    return config;
  }

  static json OnLanWithoutIpv6() {
    json config = OnLan({{"sourceCheck", true}});
    config["ipam"]["ranges"].erase(1);
    return config;
  }

  // A machine on the LAN that is no allocation: a virtual one, say.
  void AddMachine() {
    machine_ = &AddContainer("machine");
    host().Must(Words("ip link add vnet0 up master lan type veth peer name eth0 netns machine"));
    machine_->Must(Words("ip address add 198.51.100.77/24 dev eth0"));
    machine_->Must(Words("ip -6 address add 2001:db8:100::77/64 dev eth0 nodad"));
    machine_->Must(Words("ip link set eth0 up"));
    machine_->Must(Words(Cat("ip route add default via ", kHostIp4)));
    machine_->Must(Words(Cat("ip -6 route add default via ", kHostIp6)));
    Serve(*machine_, Protocol::kTcp, {"198.51.100.77", "2001:db8:100::77"}, kPort, "machine");
  }
  [[nodiscard]] const Node& machine() const { return *machine_; }

  // A machine behind another card of the node, for which it forwards.
  Node& AddBeyond() {
    Node& beyond = AddContainer("beyond");
    host().SetSysctl("net/ipv4/ip_forward", "1");
    host().SetSysctl("net/ipv6/conf/all/forwarding", "1");
    host().Must(Words("ip link add beyond type veth peer name eth0 netns beyond"));
    host().Must(Words("ip address add 203.0.113.1/24 dev beyond"));
    host().Must(Words("ip address add 2001:db8:203::1/64 dev beyond nodad"));
    host().Must(Words("ip link set beyond up"));
    beyond.Must(Words("ip address add 203.0.113.2/24 dev eth0"));
    beyond.Must(Words("ip address add 2001:db8:203::2/64 dev eth0 nodad"));
    beyond.Must(Words("ip link set eth0 up"));
    beyond.Must(Words("ip route add default via 203.0.113.1"));
    beyond.Must(Words("ip -6 route add default via 2001:db8:203::1"));
    return beyond;
  }

  static std::optional<Reply> AskOutside(const Node& from, const std::string& to) {
    return Ask(from, {.to = to, .port = kPort});
  }
  void ExpectSeenAs(const Node& node, const std::string& ip4, const std::string& ip6) {
    EXPECT_EQ(AskOutside(node, kOutsideIp4), (Reply{"outside", ip4}));
    EXPECT_EQ(AskOutside(node, kOutsideIp6), (Reply{"outside", ip6}));
  }

  Node& other_ = AddContainer("other");

 private:
  Node* machine_ = nullptr;
};

}  // namespace nomad_bridge::test
