// Links and the way to them, read back with ip(8).
#include <linux/netlink.h>
#include <sys/socket.h>

#include "tests/kernel/rtnl_world.h"

namespace nomad_bridge::test {
namespace {

class RtnlSocket : public RtnlWorld {};
class RtnlLink : public RtnlWorld {};
class RtnlBridgeLink : public RtnlWorld {};
class RtnlVeth : public RtnlWorld {};
class RtnlNamespace : public RtnlWorld {};

// Sends a message that answers nothing to every route socket of this namespace: "no such device",
// as of another request.
void SendStrays() {
  const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  struct {
    nlmsghdr header;
    nlmsgerr refusal;
  } stray{};
  stray.header = {.nlmsg_len = sizeof(stray), .nlmsg_type = NLMSG_ERROR, .nlmsg_seq = 1};
  stray.refusal.error = -ENODEV;
  // "sk Eth Pid Groups ...": one line per socket.
  std::ifstream sockets("/proc/net/netlink");
  std::string line;
  while (std::getline(sockets, line)) {
    std::istringstream words(line);
    std::string address;
    int protocol = -1;
    sockaddr_nl to{};
    to.nl_family = AF_NETLINK;
    words >> address >> protocol >> to.nl_pid;
    if (words && protocol == NETLINK_ROUTE && to.nl_pid != 0) {
      EXPECT_EQ(::sendto(socket.get(),
                         &stray,
                         sizeof(stray),
                         0,
                         static_cast<const sockaddr*>(static_cast<const void*>(&to)),
                         sizeof(to)),
                static_cast<ssize_t>(sizeof(stray)));
    }
  }
}

TEST_F(RtnlSocket, IgnoresRepliesToOtherRequests) {
  SendStrays();
  EXPECT_TRUE(net_.FindLink("lo"));

  SendStrays();
  EXPECT_FALSE(net_.Addresses(net_.FindLink("lo").value()).empty());

  SendStrays();
  EXPECT_TRUE(net_.CreateBridge("nomad", kBridgeMac, 0));
  EXPECT_FALSE(LinkOn(host(), "nomad").is_null());
}

TEST_F(RtnlLink, MayBeAbsent) {
  EXPECT_FALSE(net_.FindLink("nobody"));
  EXPECT_FALSE(net_.FindLink(4711));
}

TEST_F(RtnlLink, IsReadAsIpShowsIt) {
  host().Must(Words("ip link add odd\"';$ mtu 1400 type veth peer p netns container"));
  host().Must({"ip", "link", "set", "odd\"';$", "alias", "job=é; group=\"x\""});
  host().Must({"ip", "link", "set", "odd\"';$", "promisc", "on", "up"});
  const rtnl::Link bridge = Bridge();
  host().Must({"ip", "link", "set", "odd\"';$", "master", "br0"});
  const json shown = LinkOn(host(), "odd\"';$");

  const rtnl::Link link = net_.FindLink("odd\"';$").value();

  EXPECT_EQ(link.index, shown.at("ifindex"));
  EXPECT_EQ(link.name, "odd\"';$");
  EXPECT_EQ(link.kind, "veth");
  EXPECT_EQ(link.alias, "job=é; group=\"x\"");
  EXPECT_EQ(shown.at("address"), link.mac.Text());
  EXPECT_EQ(link.mtu, 1400);
  EXPECT_TRUE(link.up);
  EXPECT_FALSE(link.operational) << "its peer is down";
  EXPECT_TRUE(link.promiscuous);
  EXPECT_EQ(link.master, bridge.index);
  EXPECT_EQ(link.peer, LinkOn(container(), "p").at("ifindex"));
  EXPECT_EQ(link.peer_netns, shown.at("link_netnsid").get<int>());
  EXPECT_EQ(net_.FindLink(link.index)->name, link.name);
}

TEST_F(RtnlLink, HasItsSettingsOfIpv6) {
  const auto set = [](const char* setting) { Must({.argv = {"sysctl", "-qw", setting}}); };
  set("net.ipv6.conf.lo.accept_ra=2");
  set("net.ipv6.conf.lo.disable_ipv6=1");
  const rtnl::Link off = net_.FindLink("lo").value();
  EXPECT_EQ(off.ipv6.value().accept_ra, 2);
  EXPECT_FALSE(off.HasIpv6());

  set("net.ipv6.conf.lo.accept_ra=0");
  set("net.ipv6.conf.lo.disable_ipv6=0");
  const rtnl::Link on = net_.FindLink("lo").value();
  EXPECT_EQ(on.ipv6.value().accept_ra, 0);
  EXPECT_TRUE(on.HasIpv6());
}

TEST_F(RtnlLink, HasItsSettingsOfIpv4) {
  const auto set = [](const char* value) {
    for (const char* const setting : {"forwarding", "route_localnet"}) {
      Must({.argv = {"sysctl", "-qw", Format("net.ipv4.conf.lo.{}={}", setting, value)}});
    }
  };
  set("1");
  const rtnl::Link on = net_.FindLink("lo").value();
  EXPECT_TRUE(on.ForwardsIpv4());
  EXPECT_TRUE(on.ipv4.value().route_localnet);

  set("0");
  const rtnl::Link off = net_.FindLink("lo").value();
  EXPECT_FALSE(off.ForwardsIpv4());
  EXPECT_FALSE(off.ipv4.value().route_localnet);
}

TEST_F(RtnlLink, ForwardingIsReadForAllLinksAndForNewOnes) {
  for (const auto& [family, name] : {std::pair(Family::kIpv4, "ipv4"), {Family::kIpv6, "ipv6"}}) {
    const auto set = [&name = name](const char* which, const char* value) {
      Must({.argv = {"sysctl", "-qw", Format("net.{}.conf.{}.forwarding={}", name, which, value)}});
    };
    set("all", "1");  // for IPv4 it reaches "default", too
    set("default", "0");
    EXPECT_TRUE(net_.ForwardsAll(family));
    EXPECT_FALSE(net_.ForwardsByDefault(family));
    set("all", "0");
    set("default", "1");
    EXPECT_FALSE(net_.ForwardsAll(family));
    EXPECT_TRUE(net_.ForwardsByDefault(family));
  }
}

TEST_F(RtnlLink, LoIsOperationalAndOfNoKind) {
  const rtnl::Link lo = net_.FindLink("lo").value();
  EXPECT_EQ(lo.kind, "");
  EXPECT_TRUE(lo.up);
  EXPECT_TRUE(lo.operational);
  EXPECT_EQ(lo.peer_netns, std::nullopt);
  EXPECT_FALSE(container_net_.FindLink("lo")->operational);
}

TEST_F(RtnlBridgeLink, IsNotCreatedOverAnotherKindOfLink) {
  Add(host(), "nomad");

  EXPECT_FALSE(net_.CreateBridge("nomad", kBridgeMac, 0));

  EXPECT_EQ(LinkOn(host(), "nomad").at("linkinfo").at("info_kind"), "veth");
}

TEST_F(RtnlBridgeLink, InvalidNameIsAnErrorInTheKernelsWords) {
  EXPECT_THAT(Thrown([&] { return net_.CreateBridge("a/b", kBridgeMac, 0); }),
              IsError(Code::kKernel, "cannot create bridge 'a/b'", HasSubstr("(EINVAL)")));
}

TEST_F(RtnlVeth, TakenHostNameIsAConflictThatNamesIt) {
  const rtnl::Link bridge = Bridge();
  Add(host(), "veth0");
  const Snapshot before = TakeSnapshot();

  EXPECT_THAT(Thrown([&] { net_.CreateVeth(Spec(bridge), container_ns_); }),
              IsError(Code::kConflict,
                      "cannot create veth pair 'veth0' - 'eth0'",
                      "the host has an interface 'veth0' already"));

  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(RtnlVeth, TakenContainerNameIsAConflictThatNamesIt) {
  const rtnl::Link bridge = Bridge();
  Add(container(), "eth0");
  const Snapshot before = TakeSnapshot();

  EXPECT_THAT(Thrown([&] { net_.CreateVeth(Spec(bridge), container_ns_); }),
              IsError(Code::kConflict, _, "the container has an interface 'eth0' already"));

  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(RtnlVeth, FullBridgeIsAnErrorThatNamesTheLimitAndLeavesNothing) {
  const rtnl::Link bridge = Bridge();
  std::string batch;
  for (int i = 0; i < 1023; ++i) {
    batch += Cat("link add d", i, " master br0 type veth peer name p", i, "\n");
  }
  host().Must({"ip", "-batch", "-"}, batch);

  EXPECT_THAT(
      Thrown([&] { net_.CreateVeth(Spec(bridge), container_ns_); }),
      IsError(
          Code::kKernel, _, "bridge 'br0' already has 1,023 ports, the kernel's limit (EXFULL)"));

  EXPECT_TRUE(LinkOn(host(), "veth0").is_null());
  EXPECT_TRUE(LinkOn(container(), "eth0").is_null());
  EXPECT_EQ(net_.Ports(bridge.index).size(), 1023U);
}

TEST_F(RtnlBridgeLink, ListsItsOwnPorts) {
  const rtnl::Link bridge = Bridge();
  const rtnl::Link other = Bridge("br1");
  Add(host(), "alone");
  AddPort("port-a");
  AddPort("port-c");
  Add(host(), "other");
  host().Must({"ip", "link", "set", "other", "master", "br1"});

  std::map<std::string, int> ports;
  for (const rtnl::Link& port : net_.Ports(bridge.index)) {
    ports[port.name] = port.index;
  }

  EXPECT_EQ(ports,
            (std::map<std::string, int>{{"port-a", LinkOn(host(), "port-a").at("ifindex")},
                                        {"port-c", LinkOn(host(), "port-c").at("ifindex")}}));
  EXPECT_EQ(net_.Ports(other.index).size(), 1U);
}

TEST_F(RtnlLink, ChangesOnlyAsRequested) {
  const rtnl::Link bridge = Bridge();
  Add(host(), "test0");
  host().Must({"ip", "link", "set", "dev", "test0", "mtu", "1300"});
  const rtnl::Link link = net_.FindLink("test0").value();

  net_.Change(link, {.up = true, .promiscuous = true, .mac = kHostMac, .master = bridge.index});
  json shown = LinkOn(host(), "test0");
  EXPECT_THAT(shown.at("flags"), Contains("UP"));
  EXPECT_THAT(shown.at("flags"), Contains("PROMISC"));
  EXPECT_EQ(shown.at("address"), kHostMac.Text());
  EXPECT_EQ(shown.at("master"), "br0");
  EXPECT_EQ(shown.at("mtu"), 1300);

  net_.Change(link, {.up = false, .mtu = 1200, .master = 0});
  shown = LinkOn(host(), "test0");
  EXPECT_THAT(shown.at("flags"), Not(Contains("UP")));
  EXPECT_THAT(shown.at("flags"), Contains("PROMISC"));
  EXPECT_EQ(shown.at("address"), kHostMac.Text());
  EXPECT_FALSE(shown.contains("master"));
  EXPECT_EQ(shown.at("mtu"), 1200);
}

TEST_F(RtnlLink, AliasHolds255Bytes) {
  Add(host(), "test0");
  const rtnl::Link link = net_.FindLink("test0").value();
  const std::string full = std::string(253, 'x') + "é";

  net_.Change(link, {.alias = full});
  EXPECT_EQ(LinkOn(host(), "test0").at("ifalias"), full);
  EXPECT_EQ(net_.FindLink("test0")->alias, full);

  const Error error = Thrown([&] { net_.Change(link, {.alias = full + "x"}); });
  EXPECT_THAT(error.details(), HasSubstr("(ERANGE)"));
  EXPECT_EQ(LinkOn(host(), "test0").at("ifalias"), full);

  net_.Change(link, {.alias = ""});
  EXPECT_FALSE(LinkOn(host(), "test0").contains("ifalias"));
}

TEST_F(RtnlLink, RefusedChangeIsNamedWithTheKernelsReason) {
  Add(host(), "test0");
  const rtnl::Link link = net_.FindLink("test0").value();

  EXPECT_THAT(Thrown([&] { net_.Change(link, {.up = true, .mtu = 10}); }),
              IsError(Code::kKernel,
                      "cannot set interface 'test0': up, MTU 10",
                      "mtu less than device minimum (EINVAL)"))
      << "the extended ack";
}

TEST_F(RtnlLink, MayBeDeletedTwice) {
  net_.CreateVeth(Spec(Bridge()), container_ns_);

  net_.EnsureLinkGone("veth0");
  net_.EnsureLinkGone("veth0");

  EXPECT_TRUE(LinkOn(host(), "veth0").is_null());
  EXPECT_TRUE(LinkOn(container(), "eth0").is_null());
}

TEST_F(RtnlLink, FailedDeletionIsAnError) {
  const Error error = Thrown([&] { net_.EnsureLinkGone("lo"); });
  EXPECT_EQ(error.msg(), "cannot delete interface 'lo'");
}

TEST_F(RtnlNamespace, IsAliveWhileAnythingReferencesIt) {
  Node& other = AddContainer("other");
  const rtnl::Link bridge = Bridge();
  std::optional<netlink::Netns> hold = netlink::Netns::Open(other.path());
  net_.CreateVeth(Spec(bridge), *hold);
  const rtnl::Link veth = net_.FindLink("veth0").value();
  const int id = veth.peer_netns.value();

  EXPECT_TRUE(net_.IsNetnsAlive(id));
  EXPECT_EQ(net_.FindPeer(veth)->index, veth.peer);
  EXPECT_EQ(net_.FindPeer(veth)->peer, veth.index);
  other.Kill();
  EXPECT_TRUE(net_.IsNetnsAlive(id)) << "its path has gone, but a descriptor holds it";
  hold.reset();
  EXPECT_FALSE(net_.IsNetnsAlive(id));
  EXPECT_FALSE(net_.FindPeer(veth).has_value());
}

TEST_F(RtnlNamespace, IsNotAliveIfItsIdIsUnknown) {
  EXPECT_FALSE(net_.IsNetnsAlive(12345));
  EXPECT_FALSE(net_.IsNetnsAlive(-1));
}

TEST_F(RtnlLink, CountsWhatItReceivesAndSends) {
  Bridge();
  Attach(container(), "port", "10.9.0.2");
  host().Must({"ip", "address", "add", "10.9.0.1/24", "dev", "br0"});
  ASSERT_TRUE(Ping(container(), "10.9.0.1"));
  const rtnl::LinkCounters counters = net_.FindLink("port")->counters.value();
  const json stats = host().Json({"ip", "-s", "-j", "link", "show", "port"}).at(0).at("stats64");
  EXPECT_GT(counters.received.packets, 0U);
  EXPECT_LE(counters.received.bytes, stats.at("rx").at("bytes"));
  EXPECT_LE(counters.sent.packets, stats.at("tx").at("packets"));
}

TEST_F(RtnlLink, IsInTheListOfAllLinks) {
  Bridge();
  Add(host(), "one");
  std::set<std::string> names;
  for (const rtnl::Link& link : net_.Links()) {
    names.insert(link.name);
    EXPECT_TRUE(link.counters) << link.name;
  }
  std::set<std::string> shown;
  for (const json& link : host().Json({"ip", "-j", "link", "show"})) {
    shown.insert(link.at("ifname"));
  }
  EXPECT_EQ(names, shown);
}

}  // namespace
}  // namespace nomad_bridge::test
