// What policies make of real connections: to neighbours, by published ports, to and from outside,
// and to the node; with and without the sysctls of br_netfilter.
#include "tests/plugin/policy_world.h"
#include "tests/support/frames.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

// Whether port 80 of `to` answers by TCP and UDP, from a source of its own, if that is given.
constexpr const char* kAskFrom = R"(
import errno, socket, sys, time
source, to = sys.argv[1:]
reached = []
def bind(s, address):
    for _ in range(100):
        try:
            return s.bind(address)
        except OSError as e:  # it may still be looked for by duplicate address detection
            if e.errno != errno.EADDRNOTAVAIL:
                raise
            time.sleep(0.1)
    sys.exit('no such source')
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    with socket.socket(socket.AF_INET6, kind) as s:
        s.settimeout(0.7)
        if source:
            bind(s, socket.getaddrinfo(source, 0, type=kind)[0][4])
        try:
            s.connect(socket.getaddrinfo(to, 80, type=kind)[0][4])
            s.send(b'x')
            reached.append(str(len(s.recv(99)) > 0))
        except OSError:
            reached.append('False')
print(*reached)
)";

constexpr const char* kNothing = "False False\n";

[[nodiscard]] std::string LinkLocalOf(const Node& node, const std::string& ifname = "eth0") {
  return Cat(MacOf(node, ifname).LinkLocal(), "%eth0");
}

class PolicyTraffic : public PolicyGround {
 protected:
  [[nodiscard]] static std::string AskFrom(const Node& from,
                                           const std::string& source,
                                           const std::string& to) {
    return from.Must({"python3", "-c", kAskFrom, source, to});
  }
  // As source and as destination. ICMPv6 passes, if no other firewall drops it.
  void ExpectClosedByLinkLocal(const Node& from, const Node& to) const {
    EXPECT_TRUE(GetParam().drops_forwarded || Ping(from, LinkLocalOf(to))) << from.name();
    EXPECT_EQ(AskFrom(from, "", LinkLocalOf(to)), kNothing) << from.name();
    EXPECT_EQ(AskFrom(from, LinkLocalOf(from), AddressOfNode(to, 6)), kNothing) << from.name();
  }

  // By ten connect(2) in a row that wait for their answer. None waits for its second SYN, which
  // is sent after a second.
  static void ExpectRefusedAtOnce(const Node& from, const std::string& to, int port) {
    constexpr const char* kClient = R"(
import socket, sys, time
slowest = 0
for _ in range(10):
    with socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET) as s:
        begun = time.monotonic()
        assert s.connect_ex((sys.argv[1], int(sys.argv[2]))) != 0
        slowest = max(slowest, time.monotonic() - begun)
print(slowest)
)";
    EXPECT_LT(std::stod(from.Must({"python3", "-c", kClient, to, Cat(port)})), 0.9)
        << from.name() << " to " << to;
  }
};

TEST_P(PolicyTraffic, NeighboursOfOtherNamespacesAreRefusedAtOnce) {
  Node& lb = Start("prod", "lb");
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  EXPECT_TRUE(Reaches(dev, api)) << "before any policy";
  Apply({kNamespaces});
  EXPECT_TRUE(Reaches(lb, api));
  EXPECT_TRUE(Reaches(api, lb));
  EXPECT_FALSE(Reaches(dev, api));
  EXPECT_FALSE(Reaches(api, dev));
  for (const int family : {4, 6}) {
    ExpectRefusedAtOnce(dev, AddressOfNode(api, family), 80);
  }
}

TEST_P(PolicyTraffic, AnAllocationThatStartsLaterIsJudgedFromItsFirstPacket) {
  Apply({kNamespaces});
  Node& api = Start("prod", "api");
  Node& lb = Start("prod", "lb");
  Node& dev = Start("dev", "test");
  EXPECT_TRUE(Reaches(lb, api));
  EXPECT_FALSE(Reaches(dev, api));
  EXPECT_FALSE(Reaches(lb, dev));
}

TEST_P(PolicyTraffic, ThePublishedPortIsTreatedAsTheDirectWay) {
  Node& api = Start("prod", "api", Publish({Port(8080, 80), Port(8080, 80, "udp")}, DualStack()));
  Node& lb = Start("prod", "lb");
  Node& dev = Start("dev", "test");
  Apply({kNamespaces});
  for (const char* const host_ip : {kHostIp4, kHostIp6}) {
    EXPECT_EQ(TcpText(lb, host_ip, 8080), "api");
    EXPECT_EQ(UdpText(lb, host_ip, 8080), "api");
    EXPECT_TRUE(IsSilent(dev, {.to = host_ip, .port = 8080}));
    EXPECT_TRUE(IsSilent(dev, {.protocol = Protocol::kUdp, .to = host_ip, .port = 8080}));
    ExpectRefusedAtOnce(dev, host_ip, 8080);
    ExpectRefusedAtOnce(outside(), host_ip, 8080);
    EXPECT_EQ(TcpText(api, host_ip, 8080), "api") << "hairpin: its own label";
    EXPECT_EQ(UdpText(api, host_ip, 8080), "api");
    EXPECT_TRUE(IsSilent(outside(), {.to = host_ip, .port = 8080})) << "no peer is 'outside'";
    EXPECT_TRUE(IsSilent(outside(), {.protocol = Protocol::kUdp, .to = host_ip, .port = 8080}));
    EXPECT_EQ(TcpText(host(), host_ip, 8080), "api") << "the node always reaches it";
    EXPECT_EQ(UdpText(host(), host_ip, 8080), "api");
  }
  EXPECT_EQ(TcpText(host(), AddressOfNode(api), 80), "api");
}

TEST_P(PolicyTraffic, OutsideIsAPeerOfItsOwn) {
  Node& api = Start("prod", "api", Publish({Port(8080, 80), Port(8080, 80, "udp")}, DualStack()));
  Node& dev = Start("dev", "test");
  Apply({{{"name", "api"},
          {"to", {{"namespace", "prod"}, {"job", "api"}}},
          {"allow", {{{"from", {"outside"}}, {"ports", {"tcp/80", "udp/80"}}}}}}});
  for (const char* const host_ip : {kHostIp4, kHostIp6}) {
    EXPECT_EQ(TcpText(outside(), host_ip, 8080), "api");
    EXPECT_EQ(UdpText(outside(), host_ip, 8080), "api");
    EXPECT_TRUE(IsSilent(dev, {.to = host_ip, .port = 8080}));
    EXPECT_TRUE(IsSilent(api, {.to = host_ip, .port = 8080})) << "hairpin: itself is not outside";
    EXPECT_TRUE(IsSilent(api, {.protocol = Protocol::kUdp, .to = host_ip, .port = 8080}));
  }
  EXPECT_FALSE(Reaches(dev, api));
}

TEST_P(PolicyTraffic, AddressesAreListsOfPrefixes) {
  Start("prod", "api", Publish({Port(8080, 80)}, DualStack()));
  const json policy = {
      {"name", "api"}, {"to", {{"namespace", "prod"}}}, {"allow", {{{"from", {"office"}}}}}};
  Apply({policy}, {{"office", {"198.51.100.0/25", "2001:db8:100::/64"}}});
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "api");
  EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "api");
  Apply({policy}, {{"office", {"198.51.100.3/32", "198.51.100.128/25", "2001:db8:101::/64"}}});
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp6, .port = 8080}));
}

TEST_P(PolicyTraffic, PortsMeanPortsOfTheAllocationItself) {
  Node& api = Start("prod", "api");
  Node& lb = Start("prod", "lb");
  Serve(api, Protocol::kTcp, {"::"}, 90, "admin");
  Apply({{{"name", "api"},
          {"to", {{"namespace", "prod"}, {"job", "api"}}},
          {"allow",
           {{{"from", {{{"namespace", "prod"}, {"job", "lb"}}}}, {"ports", {"tcp/85-95"}}}}}}});
  EXPECT_EQ(TcpText(lb, AddressOfNode(api), 90), "admin");
  EXPECT_EQ(TcpText(lb, AddressOfNode(api, 6), 90), "admin");
  EXPECT_FALSE(Reaches(lb, api));
  EXPECT_FALSE(Ping(lb, AddressOfNode(api)));
}

TEST_P(PolicyTraffic, EgressIsJudgedAfterTranslationAndToTheNodeToo) {
  Node& job = Start("dev", "job");
  Node& other = Start("dev", "other");
  Serve(outside(), Protocol::kTcp, {"::"}, 80, "metadata");
  Serve(outside(), Protocol::kTcp, {"::"}, 53, "dns");
  Serve(host(), Protocol::kTcp, {"::"}, 9000, "node");
  Apply({{{"name", "metadata"},
          {"from", {{"namespace", "dev"}}},
          {"deny", {{{"to", {"metadata"}}, {"ports", {"tcp/80"}}}}}}},
        {{"metadata", {Cat(kOutsideIp4, "/32"), Cat(kOutsideIp6, "/128")}}});
  for (const char* const ip : {kOutsideIp4, kOutsideIp6}) {
    ExpectRefusedAtOnce(job, ip, 80);
    EXPECT_EQ(TcpText(job, ip, 53), "dns");
  }
  EXPECT_TRUE(Reaches(job, other));
  EXPECT_EQ(TcpText(job, kBridgeIp4, 9000), "node");
  // Closed but for DNS, and the node.
  Apply({{{"name", "egress"},
          {"from", {{"namespace", "dev"}, {"job", "job"}}},
          {"allow", {{{"to", {"outside"}}, {"ports", {"tcp/53"}}}, {{"to", {"node"}}}}}}});
  for (const char* const ip : {kOutsideIp4, kOutsideIp6}) {
    EXPECT_TRUE(IsSilent(job, {.to = ip, .port = 80}));
    EXPECT_EQ(TcpText(job, ip, 53), "dns");
  }
  EXPECT_FALSE(Reaches(job, other));
  EXPECT_TRUE(Reaches(other, job)) << "answers pass";
  EXPECT_EQ(TcpText(job, kBridgeIp4, 9000), "node");
  EXPECT_EQ(TcpText(job, kBridgeIp6, 9000), "node");
  Apply({{{"name", "egress"},
          {"from", {{"namespace", "dev"}, {"job", "job"}}},
          {"allow", {{{"to", {"outside"}}}}}}});
  ExpectRefusedAtOnce(job, kBridgeIp4, 9000);
  ExpectRefusedAtOnce(job, kBridgeIp6, 9000);
  EXPECT_EQ(TcpText(job, kOutsideIp6, 80), "metadata") << "neighbour discovery passes";
}

// Where one ends the next begins: the one half of all addresses, and the other.
TEST_P(PolicyTraffic, PrefixesMayLieSideBySide) {
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  const json halves = {"0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1"};
  const json from_list = {
      {"name", "api"}, {"to", {{"namespace", "prod"}}}, {"allow", {{{"from", {"list"}}}}}};
  Apply({from_list}, {{"list", halves}});
  EXPECT_TRUE(Reaches(dev, api));
  EXPECT_THAT(RunLine("reconcile -dry-run"), Exits(0, Out(HasSubstr("nothing to repair"))));
  Apply({from_list}, {{"list", {"10.0.0.0/24", "10.0.1.0/24", "2001:db8::/64"}}});
  EXPECT_FALSE(Reaches(dev, api));
}

// Policies make the bridge hand over what passes between its ports. What passed before must pass
// the rules of iptables then.
TEST_P(PolicyTraffic, AuditChangesNothingForNeighbours) {
  const json config = DualStack({{"sourceCheck", false}});
  Node& api = Start("prod", "api", config);
  Node& dev = Start("dev", "test", config);
  for (const auto& [node, number] : {std::pair(&api, 1), std::pair(&dev, 2)}) {
    node->Must(Words(Cat("ip address add 10.99.0.", number, "/24 dev eth0")));
    node->Must(Words(Cat("ip address add fd99::", number, "/64 dev eth0 nodad")));
  }
  const auto is_reached = [&] {
    bool is_any_silent = AskFrom(dev, "", LinkLocalOf(api)) != "True True\n";
    for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
      for (const char* const to : {"10.99.0.1", "fd99::1"}) {
        is_any_silent |= !Ask(dev, {.protocol = protocol, .to = to, .port = 80});
      }
    }
    return !is_any_silent;
  };
  if (std::string_view(GetParam().bridge_nf_call) == "0") {
    ASSERT_TRUE(Soon(is_reached)) << "before";  // duplicate address detection takes a while
  }
  Apply({Audited()});
  EXPECT_TRUE(Soon(is_reached));
  EXPECT_TRUE(Reaches(dev, api));
}

TEST_P(PolicyTraffic, LinkLocalAddressesCarryOnlyIcmpv6) {
  Node& api = Start("prod", "api");
  Node& lb = Start("prod", "lb");
  Node& dev = Start("dev", "test");
  Serve(host(), Protocol::kTcp, {"::"}, 80, "node");
  Serve(host(), Protocol::kUdp, {"::"}, 80, "node");
  Apply({kNamespaces});
  ExpectClosedByLinkLocal(dev, api);
  ExpectClosedByLinkLocal(lb, api);
  EXPECT_EQ(AskFrom(dev, "", LinkLocalOf(host(), "nomad")), kNothing);
  EXPECT_EQ(AskFrom(dev, LinkLocalOf(dev), kBridgeIp6), kNothing);
  EXPECT_TRUE(Reaches(lb, api));
  EXPECT_EQ(TcpText(host(), AddressOfNode(api, 6), 80), "api");
}

TEST_P(PolicyTraffic, LinkLocalAddressesOfTheNodeAreClosedInANetworkWithoutIpv6) {
  Node& dev = Start("dev", "test", Config());
  Serve(host(), Protocol::kTcp, {"::"}, 80, "node");
  Serve(host(), Protocol::kUdp, {"::"}, 80, "node");
  Apply({{{"name", "egress"},
          {"from", {{"namespace", "dev"}}},
          {"allow", {{{"to", {"same-namespace"}}}}}}});
  EXPECT_TRUE(Ping(dev, LinkLocalOf(host(), "nomad")));
  EXPECT_EQ(AskFrom(dev, "", LinkLocalOf(host(), "nomad")), kNothing);
}

// And a machine of the LAN that the bridge is a part of.
TEST_P(PolicyTraffic, LinkLocalAddressesAreClosedOnABridgeWithoutAGateway) {
  const json config = DualStack({{"isGateway", false}, {"ipMasq", false}});
  host().Must(Words("ip link add nomad type bridge nf_call_iptables 1 nf_call_ip6tables 1"));
  Node& api = Start("prod", "api", config);
  Node& dev = Start("dev", "test", config);
  Node& lan = AddContainer("lan");
  host().Must(Words("ip link add vnet0 up master nomad type veth peer name eth0 netns lan"));
  lan.Must(Words("ip link set eth0 up"));
  lan.Must(Words("ip -6 address add fd00:26::99/64 dev eth0 nodad"));
  Apply({kNamespaces});
  ExpectClosedByLinkLocal(dev, api);
  ExpectClosedByLinkLocal(lan, api);
}

INSTANTIATE_TEST_SUITE_P(Of,
                         PolicyTraffic,
                         ::testing::Values(Ground{{"BridgeNfCallOff"}, "0"},
                                           Ground{{"BridgeNfCallOn"}, "1"},
                                           Ground{{"BridgeNfCallOffForwardDrops"}, "0", true},
                                           Ground{{"BridgeNfCallOnForwardDrops"}, "1", true}),
                         kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
