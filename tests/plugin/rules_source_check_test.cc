// The key `sourceCheck`: what an allocation with CAP_NET_RAW sends in another's name, and what only
// a router or a DHCP server sends. Every forged frame is followed by an honest datagram on the same
// way: when that is answered, the frame has arrived or never will.
#include "tests/support/frames.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

const Mac kLldpGroup = Mac::Parse("01:80:c2:00:00:0e").value();
const Mac kAllNodes = Mac::Parse("33:33:00:00:00:01").value();

// The container, 172.26.64.2 and fd00:26::2, forges; the neighbour has .3 and ::3.
class SourceCheck : public World {
 protected:
  SourceCheck() {
    // The kernel's own filter would hide what ours does.
    for (const std::string link : {"all", "default"}) {
      host().SetSysctl(Cat("net/ipv4/conf/", link, "/rp_filter"), "0");
    }
  }

  void Add(const json& changes = {}) {
    Attach(DualStack(changes), As("forger", container()));
    Attach(DualStack(changes), As("neighbour", neighbour_));
    own_ = MacOf(container(), "eth0");
    neighbours_ = MacOf(neighbour_, "eth0");
    bridges_ = MacOf(host(), "nomad");
    for (const Node* const node : {&host(), &neighbour_}) {
      for (const char* const any : {"0.0.0.0", "::"}) {
        servers_.push_back(Server::Start(*node, Protocol::kUdp, any, 9000, "heard"));
      }
    }
  }

  // Who was heard by the host and the neighbour, by IPv4 and IPv6.
  [[nodiscard]] std::vector<std::string> Heard() {
    std::vector<std::string> all;
    for (const char* const to : {kBridgeIp4, kBridgeIp6, "172.26.64.3", "fd00:26::3"}) {
      EXPECT_EQ(UdpText(container(), to, 9000), "heard") << to;
    }
    for (Server& server : servers_) {
      for (const std::string& source : server.Heard()) {
        all.push_back(source);
      }
    }
    return all;
  }
  [[nodiscard]] static auto OnlyHonest() {
    return ElementsAre("172.26.64.2", "fd00:26::2", "172.26.64.2", "fd00:26::2");
  }

  void Send(const Bytes& frame) { SendFrame(container(), "eth0", frame); }

  // A datagram from `from` to the node and the neighbour, in every wrapping that reaches a
  // receiver.
  void SendAs(const std::string& from, const Mac& mac) {
    const bool is_ipv4 = from.find(':') == std::string::npos;
    const auto frames = [&](const Mac& to, const std::string& ip) {
      const Bytes frame = UdpFrame({.to = to, .from = mac}, {.from = from, .to = ip});
      Send(frame);
      Send(WithPriorityTag(frame));
      Send(WithPriorityTag(WithPriorityTag(frame)));
    };
    frames(bridges_, is_ipv4 ? kBridgeIp4 : kBridgeIp6);
    frames(neighbours_, is_ipv4 ? "172.26.64.3" : "fd00:26::3");
    // The bridge hands these to the node as they are, by the port.
    frames(kLldpGroup, is_ipv4 ? kBridgeIp4 : kBridgeIp6);
  }

  // "<MAC>" of `ip` in the neighbour's cache.
  [[nodiscard]] std::string NeighbourEntry(const std::string& ip) const {
    const json entries = neighbour_.Json({"ip", "-j", "neigh", "show", ip, "dev", "eth0"});
    return entries.empty() ? "" : entries.at(0).value("lladdr", "");
  }
  // The host's link behind which the bridge looks for the neighbour.
  [[nodiscard]] std::string PortOfNeighbour() {
    for (const json& entry : host().Json({"bridge", "-j", "fdb", "show", "br", "nomad"})) {
      if (entry.at("mac") == neighbours_.Text()) {
        return entry.at("ifname");
      }
    }
    return "";
  }
  [[nodiscard]] static bool HasRouteByRa(const Node& node) {
    return node.Must({"ip", "-6", "route", "show", "default"}).find("proto ra") !=
           std::string::npos;
  }
  [[nodiscard]] static std::string LinkLocalOf(const Node& node) {
    for (const json& link : node.Json({"ip", "-j", "-6", "address", "show", "dev", "eth0"})) {
      for (const json& address : link.value("addr_info", json::array())) {
        if (address.value("scope", "") == "link") {
          return address.at("local");
        }
      }
    }
    return "";
  }

  // To all nodes, and by the group that the bridge hands to the node.
  void ExpectNoRouteByRa() {
    host().SetSysctl("net/ipv6/conf/nomad/accept_ra", "2");
    for (const json& port : PortsOf("nomad")) {
      const std::string name = port.at("ifname");
      host().SetSysctl(Cat("net/ipv6/conf/", name, "/accept_ra"), "2");
    }
    for (const Mac& to : {kAllNodes, kLldpGroup}) {
      Send(Icmpv6Frame(
          {.to = to, .from = own_},
          {.from = LinkLocalOf(container()), .to = "ff02::1", .body = RouterAdvertisement()}));
    }
    EXPECT_THAT(Heard(), OnlyHonest());
    EXPECT_FALSE(HasRouteByRa(host()));
    EXPECT_FALSE(HasRouteByRa(neighbour_));
  }

  Node& neighbour_ = AddContainer("neighbour");
  Mac own_;
  Mac neighbours_;
  Mac bridges_;
  std::vector<Server> servers_;
};

TEST_F(SourceCheck, DropsAddressesOfOthers) {
  Add();
  for (const char* const from : {"172.26.64.3",
                                 kBridgeIp4,
                                 "172.26.64.9",
                                 "203.0.113.9",
                                 "fd00:26::3",
                                 kBridgeIp6,
                                 "2001:db8:9::9"}) {
    SendAs(from, own_);
  }
  EXPECT_THAT(Heard(), OnlyHonest());
}

TEST_F(SourceCheck, DropsMacsOfOthers) {
  Add();
  EXPECT_TRUE(Ping(neighbour_, kBridgeIp4));
  const std::string port = PortOfNeighbour();
  EXPECT_NE(port, "");
  for (const Mac& mac : {neighbours_, bridges_, Mac::ForName("nobody")}) {
    SendAs("172.26.64.2", mac);
    SendAs("fd00:26::2", mac);
  }
  EXPECT_EQ(PortOfNeighbour(), port) << "the bridge sends frames for the neighbour to the forger";
  EXPECT_THAT(Heard(), OnlyHonest());
}

TEST_F(SourceCheck, DropsArpOfOthers) {
  Add();
  neighbour_.SetSysctl("net/ipv4/neigh/eth0/locktime", "0");
  EXPECT_TRUE(Ping(neighbour_, kBridgeIp4));
  for (const Mac& from : {own_, bridges_}) {
    Send(ArpFrame({.to = neighbours_, .from = from},
                  {.ip = kBridgeIp4, .mac = own_, .to = "172.26.64.3"}));
  }
  EXPECT_THAT(Heard(), OnlyHonest());
  EXPECT_EQ(NeighbourEntry(kBridgeIp4), bridges_.Text());
  EXPECT_EQ(NeighbourEntry("172.26.64.2"), own_.Text());
}

TEST_F(SourceCheck, DropsNeighbourAdvertisementsOfOthers) {
  Add();
  EXPECT_TRUE(Ping(neighbour_, kBridgeIp6));
  for (const std::string from : {"fd00:26::2", kBridgeIp6, "::"}) {
    Send(Icmpv6Frame(
        {.to = neighbours_, .from = own_},
        {.from = from, .to = "fd00:26::3", .body = NeighbourAdvertisement(kBridgeIp6, own_)}));
  }
  EXPECT_THAT(Heard(), OnlyHonest());
  EXPECT_EQ(NeighbourEntry(kBridgeIp6), bridges_.Text());
  EXPECT_EQ(NeighbourEntry("fd00:26::2"), own_.Text());
}

TEST_F(SourceCheck, DropsRouterAdvertisements) {
  Add();
  ExpectNoRouteByRa();
}

TEST_F(SourceCheck, DropsRouterAdvertisementsOnABridgeThatWasThere) {
  host().Must(Words("ip link add nomad up type bridge"));
  Add();
  ExpectNoRouteByRa();
}

TEST_F(SourceCheck, DropsDhcpAnswers) {
  Add();
  std::vector<Server> clients;
  for (const auto& [ip, port] :
       {std::pair<std::string, std::uint16_t>{"172.26.64.3", 68}, {"fd00:26::3", 546}}) {
    clients.push_back(Server::Start(neighbour_, Protocol::kUdp, ip, port, "client"));
    for (const std::uint16_t from_port : std::initializer_list<std::uint16_t>{67, 547, 9999}) {
      const bool is_ipv4 = port == 68;
      Send(UdpFrame({.to = neighbours_, .from = own_},
                    {.from = is_ipv4 ? "172.26.64.2" : "fd00:26::2",
                     .to = ip,
                     .from_port = from_port,
                     .port = port}));
    }
  }
  EXPECT_THAT(Heard(), OnlyHonest());
  EXPECT_THAT(clients[0].Heard(), IsEmpty());
  EXPECT_THAT(clients[1].Heard(), IsEmpty());
}

TEST_F(SourceCheck, LeavesTheAllocationsOwnTrafficAlone) {
  Add({{"enabledad", true}});
  EXPECT_THAT(Heard(), OnlyHonest());
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  EXPECT_TRUE(Ping(container(), kOutsideIp6));
  EXPECT_TRUE(Ping(neighbour_, LinkLocalOf(container()) + "%eth0"));
  // Addresses are learned anew.
  container().Must(Words("ip neigh flush dev eth0"));
  neighbour_.Must(Words("ip neigh flush dev eth0"));
  EXPECT_THAT(Heard(), OnlyHonest());
}

TEST_F(SourceCheck, IsOffWhereTheConfigSaysSo) {
  Add({{"sourceCheck", false}});
  SendAs("172.26.64.9", own_);
  SendAs("2001:db8:9::9", own_);
  EXPECT_THAT(Heard(), Contains("172.26.64.9"));
  EXPECT_THAT(Heard(), OnlyHonest());
  EXPECT_THAT(host().Must({"nft", "list", "tables"}), Not(HasSubstr("table bridge")));
}

TEST_F(SourceCheck, IsRepairedElementByElement) {
  const json config = DualStack();
  const json result = Attach(config, As("forger", container()));
  const Snapshot before = TakeHostSnapshot().Of({"host nft bridge"});
  for (const char* const set : {"ports", "mac", "source4", "source6"}) {
    host().Must({"nft", "flush", "set", "bridge", "nomad-bridge", set});
    EXPECT_THAT(MustCheck(config, result, As("forger", container())),
                Err(HasSubstr(Cat(" in ", set, " of "))))
        << set;
    EXPECT_TRUE(Unchanged(before, TakeHostSnapshot().Of({"host nft bridge"}))) << set;
  }
}

TEST_F(SourceCheck, IsReportedByAReadOnlyCheck) {
  const json config = DualStack({{"repairOnCheck", false}});
  const json result = Attach(config, As("forger", container()));
  host().Must({"nft", "flush", "chain", "bridge", "nomad-bridge", "source"});
  EXPECT_THAT(Check(config, result, As("forger", container())),
              Exits(Ne(0), MsgAndDetails(HasSubstr("chain source in table bridge nomad-bridge"))));
}

TEST_F(SourceCheck, IsRemovedWithTheAllocation) {
  UseOnce(DualStack());
  const Snapshot before = TakeHostSnapshot().Of({"host nft bridge"});
  UseOnce(DualStack());
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot().Of({"host nft bridge"})));
  EXPECT_THAT(host().Must(Words("nft list table bridge nomad-bridge")), Not(HasSubstr("elements")));
}

}  // namespace
}  // namespace nomad_bridge::test
