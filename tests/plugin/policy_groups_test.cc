// What policies make of packets that go to several allocations, or to an address that nobody
// assigned: broadcast, multicast, frames to another address than their receiver's.
#include "tests/plugin/policy_world.h"
#include "tests/support/frames.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

// Sends a datagram with the word to port 8125 of an address, and prints the answers' words until
// the one that asks for them by unicast at the end: it comes last.
constexpr const char* kSay = R"(
import socket, sys
source, to, word = sys.argv[1:]
family = socket.AF_INET6 if ':' in to else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
if family == socket.AF_INET6:
    s.bind((source, 0))
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex('eth0'))
    s.sendto(word.encode(), (to, 8125, 0, socket.if_nametoindex('eth0') if to.startswith('ff') else 0))
else:
    s.bind((source, 0))
    if to.startswith('224.'):
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(source))
    s.sendto(word.encode(), (to, 8125))
)";
// Prints the words that come to port 8125, until "end".
constexpr const char* kHear = R"(
import select, socket
ipv4 = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ipv4.bind(('0.0.0.0', 8125))
ipv6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
ipv6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
ipv6.bind(('::', 8125))
open('/run/hears', 'w')
ends = 0
while ends < 2:
    for s in select.select([ipv4, ipv6], [], [])[0]:
        word = s.recv(99).decode()
        if word == 'end':
            ends += 1
        else:
            print(word)
)";

class PolicyGroups : public PolicyGround {
 protected:
  void StartHearing(const Node& node) {
    fs::remove("/run/hears");
    hears_.emplace(
        Process::Start({.argv = {"python3", "-c", kHear}, .in_child = [&] { node.Enter(); }}));
    ASSERT_TRUE(Soon([] { return FindStatus("/run/hears").has_value(); }));
  }
  // Returns the words that were heard. The node itself ends it, by the same way as they came.
  [[nodiscard]] std::vector<std::string> Heard(const Node& node) {
    constexpr const char* kEnd = R"(
import socket, sys
for to in sys.argv[1:]:
    family = socket.AF_INET6 if ':' in to else socket.AF_INET
    socket.socket(family, socket.SOCK_DGRAM).sendto(b'end', (to, 8125))
)";
    host().Must({"python3", "-c", kEnd, AddressOfNode(node), AddressOfNode(node, 6)});
    return Lines(hears_->Wait().out);
  }
  void Say(const Node& from, const std::string& to, const std::string& word) {
    const int family = to.find(':') != to.npos ? 6 : 4;
    from.Must({"python3", "-c", kSay, AddressOfNode(from, family), to, word});
  }
  void SayToGroups(const Node& from, const std::string& name) {
    for (const char* const to : {"172.26.79.255", "255.255.255.255", "224.0.0.1", "ff02::1"}) {
      Say(from, to, Cat(name, " to ", to));
    }
  }
  static std::vector<std::string> ToGroups(const std::string& name) {
    return {Cat(name, " to 172.26.79.255"),
            Cat(name, " to 255.255.255.255"),
            Cat(name, " to 224.0.0.1"),
            Cat(name, " to ff02::1")};
  }

  std::optional<Process> hears_;
};

TEST_P(PolicyGroups, ReachAClosedAllocationOnlyFromWhoMayReachIt) {
  Node& api = Start("prod", "api");
  Node& lb = Start("prod", "lb");
  Node& dev = Start("dev", "test");
  Apply({kNamespaces});
  StartHearing(api);
  SayToGroups(dev, "dev");
  SayToGroups(lb, "lb");
  EXPECT_THAT(Heard(api), UnorderedElementsAreArray(ToGroups("lb")));
  EXPECT_TRUE(Reaches(lb, api));
}

TEST_P(PolicyGroups, AreJudgedByPortsToo) {
  Node& api = Start("prod", "api");
  Node& lb = Start("prod", "lb");
  json policy = kNamespaces;
  policy["allow"][0]["ports"] = {"udp/1-8124", "tcp"};
  Apply({policy});
  StartHearing(api);
  SayToGroups(lb, "lb");
  EXPECT_THAT(Heard(api), IsEmpty());
  policy["allow"][0]["ports"] = {"udp/8125"};
  Apply({policy});
  StartHearing(api);
  SayToGroups(lb, "lb");
  EXPECT_THAT(Heard(api), UnorderedElementsAreArray(ToGroups("lb")));
}

TEST_P(PolicyGroups, ReachWhatNoPolicyCloses) {
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  json policy = kNamespaces;
  policy["to"] = {{"namespace", "infra"}};
  Apply({policy});
  StartHearing(api);
  SayToGroups(dev, "dev");
  EXPECT_THAT(Heard(api), UnorderedElementsAreArray(ToGroups("dev")));
  json audited = Audited();
  audited["name"] = "audited";
  Apply({policy, audited});
  StartHearing(api);
  SayToGroups(dev, "dev");
  EXPECT_THAT(Heard(api), UnorderedElementsAreArray(ToGroups("dev"))) << "audited";
}

// An address that nobody assigned is closed, too, but what its owner began is answered.
TEST_P(PolicyGroups, AnAddedAddressIsClosedButAnswered) {
  const json config = DualStack({{"sourceCheck", false}});
  Node& api = Start("prod", "api", config);
  Node& dev = Start("dev", "test", config);
  api.Must(Words("ip address add 10.99.0.1/24 dev eth0"));
  api.Must(Words("ip address add fd99::1/64 dev eth0 nodad"));
  dev.Must(Words("ip address add 10.99.0.2/24 dev eth0"));
  dev.Must(Words("ip address add fd99::2/64 dev eth0 nodad"));
  Apply({kNamespaces,
         {{"name", "prod"}, {"to", {{"namespace", "dev"}}}, {"allow", {{{"from", {"any"}}}}}}});
  for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
    for (const auto& [of_api, of_dev] :
         {std::pair("10.99.0.1", "10.99.0.2"), std::pair("fd99::1", "fd99::2")}) {
      EXPECT_TRUE(IsSilent(dev, {.protocol = protocol, .to = of_api, .port = 80})) << of_api;
      EXPECT_TRUE(Ask(api, {.protocol = protocol, .to = of_dev, .port = 80})) << of_dev;
    }
  }
}

// Frames that a program makes itself: to the neighbour's MAC with a group's address, to an address
// that the neighbour has added, and from no address.
TEST_P(PolicyGroups, CannotBeHiddenByAnotherAddress) {
  const json config = DualStack({{"sourceCheck", false}});
  Node& api = Start("prod", "api", config);
  Node& dev = Start("dev", "test", config);
  Node& lb = Start("prod", "lb", config);
  api.Must(Words("ip address add 10.99.0.1/24 dev eth0"));
  json open_to_outside = kNamespaces;
  open_to_outside["allow"].push_back({{"from", {"outside"}}, {"ports", {"tcp"}}});
  Apply({open_to_outside});
  StartHearing(api);
  const Mac all = {.bytes = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
  const Mac of_api = MacOf(api, "eth0");
  for (const Node* const from : {&dev, &lb}) {
    const Mac own = MacOf(*from, "eth0");
    for (const auto& [mac, source, to] :
         {std::tuple(of_api, AddressOfNode(*from), std::string("255.255.255.255")),
          std::tuple(of_api, AddressOfNode(*from), std::string("10.99.0.1")),
          std::tuple(all, std::string("0.0.0.0"), std::string("255.255.255.255")),
          std::tuple(all, std::string("10.99.0.7"), std::string("255.255.255.255"))}) {
      SendFrame(*from,
                "eth0",
                UdpFrame({.to = mac, .from = own},
                         {.from = source, .to = to, .port = 8125, .text = from->name()}));
    }
  }
  EXPECT_THAT(Heard(api), ElementsAre("prod-lb", "prod-lb", "prod-lb", "prod-lb"));
}

INSTANTIATE_TEST_SUITE_P(Of,
                         PolicyGroups,
                         ::testing::Values(Ground{{"BridgeNfCallOff"}, "0"},
                                           Ground{{"BridgeNfCallOn"}, "1"},
                                           Ground{{"BridgeNfCallOnForwardDrops"}, "1", true}),
                         kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
