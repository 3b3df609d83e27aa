// Source addresses: of what leaves an allocation and of what reaches it, and the options that
// change them.
#include <arpa/inet.h>
#include <linux/mroute.h>
#include <linux/mroute6.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class Masquerade : public World {
 protected:
  // The container with host port 8080 → 80, a neighbour beside it, and what the container's server
  // answers.
  void Add(const json& changes = {}) {
    Attach(Publish({Port(8080, 80)}, DualStack(changes)), As("web", container()));
    Attach(DualStack(changes), As("neighbour", neighbour_));
    Serve(container(), Protocol::kTcp, {"172.26.64.2", "fd00:26::2"}, 80, "web");
  }

  [[nodiscard]] std::optional<Reply> From(const Node& node, const std::string& to) const {
    return Ask(node, {.to = to, .port = 8080});
  }

  Node& neighbour_ = AddContainer("neighbour");
};

TEST_F(Masquerade, SourceIsTheContainerOutsideWithoutIpMasq) {
  Add({{"ipMasq", false}});
  DropForwarded();
  Serve(outside(), Protocol::kTcp, {kOutsideIp4, kOutsideIp6}, 9000, "outside");
  EXPECT_EQ(Ask(container(), {.to = kOutsideIp4, .port = 9000}), (Reply{"outside", "172.26.64.2"}));
  EXPECT_EQ(Ask(container(), {.to = kOutsideIp6, .port = 9000}), (Reply{"outside", "fd00:26::2"}));
}

TEST_F(Masquerade, SourceIsTheContainerOnTheHostAndAtItsNeighbours) {
  Add();
  Serve(host(), Protocol::kTcp, {kHostIp4, kBridgeIp6}, 9000, "host");
  EXPECT_EQ(Ask(container(), {.to = kHostIp4, .port = 9000}), (Reply{"host", "172.26.64.2"}));
  EXPECT_EQ(Ask(container(), {.to = kBridgeIp6, .port = 9000}), (Reply{"host", "fd00:26::2"}));
  EXPECT_EQ(Ask(neighbour_, {.to = "172.26.64.2", .port = 80}), (Reply{"web", "172.26.64.3"}));
}

TEST_F(Masquerade, SourceIsTheBridgeForEverybodyWithMasqAll) {
  Add({{"masqAll", true}});
  EXPECT_EQ(From(outside(), kHostIp4), (Reply{"web", kBridgeIp4}));
  EXPECT_EQ(From(outside(), kHostIp6), (Reply{"web", kBridgeIp6}));
  EXPECT_EQ(From(host(), kHostIp4), (Reply{"web", kBridgeIp4}));
  EXPECT_EQ(From(neighbour_, kHostIp4), (Reply{"web", kBridgeIp4}));
  EXPECT_EQ(From(container(), kHostIp6), (Reply{"web", kBridgeIp6}));
  EXPECT_EQ(Ask(neighbour_, {.to = "172.26.64.2", .port = 80}), (Reply{"web", "172.26.64.3"}))
      << "not by the port";
}

TEST_F(Masquerade, SourceIsKeptOnPublishedPortsWithoutSnat) {
  Add({{"snat", false}});
  EXPECT_EQ(From(outside(), kHostIp4), (Reply{"web", kOutsideIp4}));
  EXPECT_EQ(From(outside(), kHostIp6), (Reply{"web", kOutsideIp6}));
  EXPECT_EQ(From(host(), kHostIp4), (Reply{"web", kHostIp4}));
  // The way back misses the node if caller and allocation are on one bridge.
  SetBridgeNf("0");
  EXPECT_TRUE(IsSilent(neighbour_, {.to = kHostIp4, .port = 8080}));
}

TEST_F(Masquerade, LeavesLocalhostUnansweredWithoutSnat) {
  Add({{"snat", false}});
  EXPECT_TRUE(IsSilent(host(), {.to = "127.0.0.1", .port = 8080}));
  EXPECT_EQ(host().Sysctl("net/ipv4/conf/nomad/route_localnet"), "0");
  EXPECT_EQ(Elements("snat4"), json::array());
}

TEST_F(Masquerade, LeavesTheSamePortOfOtherMachinesAlone) {
  Add({{"inbound", "any"}});
  // GHSA-jv3w-x3r3-g6rm: only what is addressed to the node itself may be caught.
  Serve(outside(), Protocol::kTcp, {kOutsideIp4, kOutsideIp6}, 8080, "outside");
  Serve(neighbour_, Protocol::kTcp, {"172.26.64.3"}, 8080, "neighbour");
  Serve(host(), Protocol::kTcp, {kHostIp4}, 8081, "host");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8081), "host");
  EXPECT_EQ(TcpText(container(), kOutsideIp4, 8080), "outside");
  EXPECT_EQ(TcpText(neighbour_, kOutsideIp6, 8080), "outside");
  EXPECT_EQ(TcpText(host(), kOutsideIp4, 8080), "outside");
  EXPECT_EQ(TcpText(host(), kOutsideIp6, 8080), "outside");
  EXPECT_EQ(TcpText(container(), "172.26.64.3", 8080), "neighbour");
  EXPECT_EQ(TcpText(outside(), "172.26.64.3", 8080), "neighbour");
}

TEST_F(Masquerade, LeavesTransitTrafficAlone) {
  Add();
  Node& far = AddContainer("far");
  host().Must(Words("ip link add farlink up type veth peer name eth0 netns far"));
  host().Must({"ip", "address", "add", "203.0.113.1/24", "dev", "farlink"});
  far.Must({"ip", "address", "add", "203.0.113.2/24", "dev", "eth0"});
  far.Must({"ip", "link", "set", "eth0", "up"});
  far.Must({"ip", "route", "add", "default", "via", "203.0.113.1"});
  Serve(far, Protocol::kTcp, {"203.0.113.2"}, 8080, "far");
  EXPECT_EQ(Ask(outside(), {.to = "203.0.113.2", .port = 8080}), (Reply{"far", kOutsideIp4}));
  EXPECT_EQ(Ask(far, {.to = kHostIp4, .port = 8080}), (Reply{"web", "203.0.113.2"}));
}

// ---- forged sources

class ForgedSource : public Masquerade {
 protected:
  ForgedSource() {
    // The kernel's own filter would hide what ours does.
    for (const std::string link : {"all", "default", "uplink"}) {
      host().SetSysctl(Cat("net/ipv4/conf/", link, "/rp_filter"), "0");
    }
    Add({{"sourceCheck", false}});
    host().SetSysctl("net/ipv4/conf/nomad/rp_filter", "0");
    // Not its own, but an allocation may be root in its namespace.
    container().Must({"ip", "address", "add", "203.0.113.9/32", "dev", "eth0"});
    container().Must({"ip", "address", "add", "2001:db8:9::9/128", "dev", "eth0", "nodad"});
  }

  // One honest datagram of each family, so that all on the way know each other, and then forged
  // ones.
  void Send() {
    const auto ask = [&](const std::string& from, const std::string& to) {
      return Ask(container(), {.protocol = Protocol::kUdp, .to = to, .port = 9000, .from = from});
    };
    EXPECT_EQ(ask("172.26.64.2", kOutsideIp4), (Reply{"outside", kHostIp4}));
    EXPECT_EQ(ask("fd00:26::2", kOutsideIp6), (Reply{"outside", kHostIp6}));
    EXPECT_EQ(ask("203.0.113.9", kOutsideIp4), std::nullopt);
    EXPECT_EQ(ask("2001:db8:9::9", kOutsideIp6), std::nullopt);
  }

  [[nodiscard]] Server Listen(const std::string& address) {
    return Server::Start(outside(), Protocol::kUdp, address, 9000, "outside");
  }
};

TEST_F(ForgedSource, IsNotTranslatedToTheNodesAddress) {
  Server server = Listen(kOutsideIp4);
  Server server6 = Listen(kOutsideIp6);
  Send();
  EXPECT_EQ(server.Heard(), (std::vector<std::string>{kHostIp4, "203.0.113.9"}));
  EXPECT_EQ(server6.Heard(), (std::vector<std::string>{kHostIp6, "2001:db8:9::9"}));
}

TEST_F(ForgedSource, IsNotAcceptedWhereForwardDrops) {
  DropForwarded();
  Server server = Listen(kOutsideIp4);
  Server server6 = Listen(kOutsideIp6);
  Send();
  EXPECT_EQ(server.Heard(), std::vector<std::string>{kHostIp4}) << "the honest one alone";
  EXPECT_EQ(server6.Heard(), std::vector<std::string>{kHostIp6}) << "the honest one alone";
}

TEST_F(ForgedSource, IsNotAcceptedFromOutside) {
  host().Must({"iptables", "-P", "FORWARD", "DROP"});
  outside().Must({"ip", "address", "add", "172.26.64.3/32", "dev", "uplink"});
  Server server = Server::Start(container(), Protocol::kUdp, "172.26.64.2", 9000, "container");
  EXPECT_TRUE(IsSilent(
      outside(),
      {.protocol = Protocol::kUdp, .to = "172.26.64.2", .port = 9000, .from = "172.26.64.3"}));
  EXPECT_TRUE(server.Heard().empty());
  EXPECT_EQ(UdpText(neighbour_, "172.26.64.2", 9000), "container");
}

// ---- localhost of the node, and packets of no connection

class Ruleset : public Masquerade {
 protected:
  // What the outside gets at prerouting and `match` says, as a number of packets.
  void Count(const std::string& match) {
    outside().Nft(Cat("table inet seen { chain c { type filter hook prerouting priority raw; ",
                      match,
                      " counter;\n}\n}\n"));
  }
  [[nodiscard]] int Counted() {
    const json listed = outside().Json({"nft", "-j", "list", "table", "inet", "seen"});
    for (const json& entry : listed.at("nftables")) {
      if (entry.contains("rule")) {
        return entry.at("rule").at("expr").back().at("counter").at("packets").get<int>();
      }
    }
    return -1;
  }
};

TEST_F(Ruleset, KeepsAllocationsFromTheHostsLocalhost) {
  Add();
  ASSERT_EQ(host().Sysctl("net/ipv4/conf/nomad/route_localnet"), "1");
  host().SetSysctl("net/ipv4/conf/all/rp_filter", "0");
  host().SetSysctl("net/ipv4/conf/nomad/rp_filter", "0");
  // By our chain alone, without the filter on the bridge that stands in for it after a flush.
  host().Must(Words("tc filter delete dev nomad ingress"));
  Server tcp = Server::Start(host(), Protocol::kTcp, "127.0.0.1", 9000, "host");
  Server udp = Server::Start(host(), Protocol::kUdp, "127.0.0.1", 9000, "host");
  container().SetSysctl("net/ipv4/conf/all/route_localnet", "1");
  container().Must({"ip", "route", "flush", "table", "local", "dev", "lo"});
  container().Must({"ip", "route", "add", "127.0.0.0/8", "via", kBridgeIp4, "src", "172.26.64.2"});
  for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
    EXPECT_TRUE(IsSilent(container(), {.protocol = protocol, .to = "127.0.0.1", .port = 9000}));
  }
  EXPECT_TRUE(tcp.Heard().empty());
  EXPECT_TRUE(udp.Heard().empty());
  host().Must(Words("nft flush chain inet nomad-bridge localhost_guard"));
  // The container drops the answer from 127.0.0.1.
  EXPECT_TRUE(IsSilent(container(), {.protocol = Protocol::kUdp, .to = "127.0.0.1", .port = 9000}));
  EXPECT_THAT(udp.Heard(), ElementsAre("172.26.64.2")) << "the test itself is broken";
}

TEST_F(Ruleset, KeepsPacketsOfNoConnectionFromLeavingUntranslated) {
  Add();
  Server server = Server::Start(outside(), Protocol::kUdp, kOutsideIp4, 9000, "outside");
  Count("ip protocol tcp tcp dport 9000");
  container().Do([] {
    const UniqueFd raw(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP));
    // A SYN with a wrong checksum: conntrack finds no connection for it, so nothing would be
    // translated.
    const std::array<std::uint8_t, 20> segment = {0x30, 0x39, 0x23, 0x28, 0, 0, 0, 1, 0, 0,
                                                  0,    0,    0x50, 0x02, 1, 0, 0, 0, 0, 0};
    sockaddr_in to{};
    to.sin_family = AF_INET;
    ::inet_pton(AF_INET, kOutsideIp4, &to.sin_addr);
    ASSERT_EQ(::sendto(raw.get(),
                       segment.data(),
                       segment.size(),
                       0,
                       reinterpret_cast<const sockaddr*>(&to),
                       sizeof to),
              20);
  });
  // Sent after it on the same way, and answered: the other has arrived by now or never will.
  EXPECT_EQ(UdpText(container(), kOutsideIp4, 9000), "outside");
  EXPECT_EQ(Counted(), 0);
}

// ---- multicast, with the node as its router

template <typename Value>
void SetOption(const UniqueFd& socket, int level, int option, const Value& value) {
  if (::setsockopt(socket.get(), level, option, &value, sizeof value) != 0) {
    throw ErrnoError(Code::kInternal, Format("cannot set socket option {}/{}", level, option));
  }
}

constexpr std::array<const char*, 2> kRouted = {"nomad", "uplink"};

// Routes `group` from the bridge to the uplink for as long as the descriptor lives.
UniqueFd RouteMulticast4(const char* from, const char* group) {
  UniqueFd fd(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_IGMP));
  SetOption(fd, IPPROTO_IP, MRT_INIT, 1);
  for (const std::uint16_t i : {std::uint16_t{0}, std::uint16_t{1}}) {
    vifctl vif{};
    vif.vifc_vifi = i;
    vif.vifc_flags = VIFF_USE_IFINDEX;
    vif.vifc_threshold = 1;
    vif.vifc_lcl_ifindex = static_cast<int>(::if_nametoindex(kRouted.at(i)));
    SetOption(fd, IPPROTO_IP, MRT_ADD_VIF, vif);
  }
  mfcctl route{};
  ::inet_pton(AF_INET, from, &route.mfcc_origin);
  ::inet_pton(AF_INET, group, &route.mfcc_mcastgrp);
  route.mfcc_parent = 0;
  route.mfcc_ttls[1] = 1;
  SetOption(fd, IPPROTO_IP, MRT_ADD_MFC, route);
  return fd;
}

UniqueFd RouteMulticast6(const char* from, const char* group) {
  UniqueFd fd(::socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6));
  SetOption(fd, IPPROTO_IPV6, MRT6_INIT, 1);
  for (const std::uint16_t i : {std::uint16_t{0}, std::uint16_t{1}}) {
    mif6ctl mif{};
    mif.mif6c_mifi = i;
    mif.vifc_threshold = 1;
    mif.mif6c_pifi = static_cast<std::uint16_t>(::if_nametoindex(kRouted.at(i)));
    SetOption(fd, IPPROTO_IPV6, MRT6_ADD_MIF, mif);
  }
  mf6cctl route{};
  route.mf6cc_origin.sin6_family = AF_INET6;
  route.mf6cc_mcastgrp.sin6_family = AF_INET6;
  ::inet_pton(AF_INET6, from, &route.mf6cc_origin.sin6_addr);
  ::inet_pton(AF_INET6, group, &route.mf6cc_mcastgrp.sin6_addr);
  route.mf6cc_parent = 0;
  IF_SET(1, &route.mf6cc_ifset);
  SetOption(fd, IPPROTO_IPV6, MRT6_ADD_MFC, route);
  return fd;
}

void SendMulticast(int family, const std::string& group) {
  const UniqueFd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const bool is_ipv4 = family == AF_INET;
  SetOption(
      fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_MULTICAST_TTL : IPV6_MULTICAST_HOPS, 8);
  sockaddr_in to4{};
  sockaddr_in6 to6{};
  to4.sin_family = AF_INET;
  to4.sin_port = htons(9000);
  to6.sin6_family = AF_INET6;
  to6.sin6_port = htons(9000);
  ::inet_pton(family, group.c_str(), is_ipv4 ? static_cast<void*>(&to4.sin_addr) : &to6.sin6_addr);
  const auto* const to =
      is_ipv4 ? reinterpret_cast<const sockaddr*>(&to4) : reinterpret_cast<const sockaddr*>(&to6);
  ASSERT_EQ(::sendto(fd.get(), "?", 1, 0, to, is_ipv4 ? sizeof to4 : sizeof to6), 1);
}

TEST_F(Ruleset, KeepsTheSourceOfMulticast) {
  Add();
  // Else the copy for the neighbour, which stays in the bridge, decides for the other.
  SetBridgeNf("0");
  const UniqueFd router = RouteMulticast4("172.26.64.2", "239.1.1.1");
  Count("ip saddr 172.26.64.2 ip daddr 239.1.1.1");
  container().Do([] { SendMulticast(AF_INET, "239.1.1.1"); });
  EXPECT_EQ(Ask(outside(), {.to = kHostIp4, .port = 8080}), (Reply{"web", kOutsideIp4}));
  EXPECT_EQ(Counted(), 1);
}

TEST_F(Ruleset, KeepsTheSourceOfIpv6Multicast) {
  Add();
  SetBridgeNf("0");
  const UniqueFd router = RouteMulticast6("fd00:26::2", "ff0e::1:1");
  Count("ip6 saddr fd00:26::2 ip6 daddr ff0e::1:1");
  container().Do([] { SendMulticast(AF_INET6, "ff0e::1:1"); });
  EXPECT_EQ(Ask(outside(), {.to = kHostIp6, .port = 8080}), (Reply{"web", kOutsideIp6}));
  EXPECT_EQ(Counted(), 1);
}

}  // namespace
}  // namespace nomad_bridge::test
