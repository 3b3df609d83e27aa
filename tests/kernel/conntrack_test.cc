// Forgetting UDP flows; entries are made, and read back, by conntrack(8).
#include "netlink/conntrack/conntrack.h"

#include <netinet/in.h>

#include "netlink/core/netns.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

struct Way : Named {
  void (conntrack::Conntrack::*forget)(const std::vector<conntrack::UdpFlows>&);
};

// Both ways: the one this kernel takes, and the one older kernels need.
class Conntrack : public World, public ::testing::WithParamInterface<Way> {
 protected:
  struct Flow {
    std::string from;
    std::string to;
    int from_port = 40000;
    int to_port = 0;
    std::string protocol = "udp";
    std::string zone;
  };

  static void Make(const Node& node, const Flow& flow) {
    node.Must(Words(Cat("conntrack -I -t 300 -p ", flow.protocol, " -s ", flow.from) +
                    Cat(" -d ", flow.to, " --sport ", flow.from_port, " --dport ", flow.to_port) +
                    (flow.protocol == "tcp" ? " --state ESTABLISHED" : "") +
                    (flow.zone.empty() ? "" : " --zone " + flow.zone)));
  }

  // UDP flows to the host that differ in the last of `options`.
  void MakeMany(int count, const std::string& options) {
    std::string script;
    for (int i = 0; i < count; ++i) {
      script +=
          Cat("-I -p udp -s 198.51.100.2 -d 198.51.100.1 -t 300 ", options, ' ', 1024 + i, '\n');
    }
    host().Must({"conntrack", "-R", "-"}, script);
  }

  [[nodiscard]] static std::string List(const Node& node) {
    return node.Must({"conntrack", "-L", "-f", "ipv4"}) +
           node.Must({"conntrack", "-L", "-f", "ipv6"});
  }

  static void ForgetIn(const netlink::Netns& ns, const std::vector<conntrack::UdpFlows>& ports) {
    conntrack::Conntrack conntrack = conntrack::Conntrack::In(ns);
    (conntrack.*GetParam().forget)(ports);
  }

  static void Forget(const std::vector<conntrack::UdpFlows>& ports) {
    ForgetIn(netlink::Netns::Current(), ports);
  }
};

TEST_P(Conntrack, ForgetsTheFlowsOfAPortAndNoOthers) {
  Make(host(), {.from = "198.51.100.2", .to = kHostIp4, .to_port = 5353});
  Make(host(), {.from = "198.51.100.3", .to = "203.0.113.9", .to_port = 5353});
  Make(host(), {.from = "198.51.100.2", .to = kHostIp4, .to_port = 5354});
  Make(host(), {.from = "198.51.100.4", .to = kHostIp4, .to_port = 5353, .protocol = "tcp"});
  Make(host(), {.from = kOutsideIp6, .to = kHostIp6, .to_port = 5353});
  // Its *source* port is the published one: an answer, somebody else's flow.
  Make(host(), {.from = "198.51.100.5", .to = kHostIp4, .from_port = 5353, .to_port = 9});

  Forget({{.family = Family::kIpv4, .port = 5353}});

  const std::string left = List(host());
  EXPECT_THAT(left, Not(HasSubstr("src=198.51.100.2 dst=198.51.100.1 sport=40000 dport=5353")));
  EXPECT_THAT(left, Not(HasSubstr("src=198.51.100.3")));
  EXPECT_THAT(left, HasSubstr("dport=5354"));
  EXPECT_THAT(left, HasSubstr("src=198.51.100.4"));
  EXPECT_THAT(left, HasSubstr("src=2001:db8:100::2"));
  EXPECT_THAT(left, HasSubstr("src=198.51.100.5"));
}

TEST_P(Conntrack, ForgetsTheFlowsOfOneHostAddressOnly) {
  Make(host(), {.from = "198.51.100.2", .to = kHostIp4, .to_port = 53});
  Make(host(), {.from = "198.51.100.3", .to = "203.0.113.9", .to_port = 53});

  Forget({{.family = Family::kIpv4, .destination = Ip::Parse(kHostIp4), .port = 53}});

  EXPECT_THAT(List(host()), Not(HasSubstr("src=198.51.100.2")));
  EXPECT_THAT(List(host()), HasSubstr("src=198.51.100.3"));
}

TEST_P(Conntrack, ForgetsSeveralPortsOfBothFamiliesAtOnce) {
  for (const int port : {1000, 1001, 1002}) {
    Make(host(), {.from = "198.51.100.2", .to = kHostIp4, .to_port = port});
    Make(host(), {.from = kOutsideIp6, .to = kHostIp6, .to_port = port});
  }

  Forget({{.family = Family::kIpv4, .port = 1000},
          {.family = Family::kIpv4, .port = 1001},
          {.family = Family::kIpv6, .destination = Ip::Parse(kHostIp6), .port = 1001},
          {.family = Family::kIpv6, .destination = Ip::Parse("2001:db8::9"), .port = 1002}});

  const std::string left = List(host());
  EXPECT_THAT(left, HasSubstr("src=198.51.100.2 dst=198.51.100.1 sport=40000 dport=1002"));
  EXPECT_THAT(left, HasSubstr("dst=2001:db8:100::1 sport=40000 dport=1000"));
  EXPECT_THAT(left, HasSubstr("dst=2001:db8:100::1 sport=40000 dport=1002"));
  EXPECT_THAT(left, Not(HasSubstr("dport=1001")));
}

TEST_P(Conntrack, ForgetsUntranslatedFlowsOfOneSource) {
  Make(host(), {.from = "172.26.64.2", .to = "198.51.100.2", .to_port = 53});
  Make(host(), {.from = "172.26.64.3", .to = "198.51.100.2", .to_port = 53});
  Make(host(), {.from = "fd00:26::2", .to = kOutsideIp6, .to_port = 53});
  Make(host(), {.from = "fd00:26::3", .to = kOutsideIp6, .to_port = 53});
  const auto masqueraded = Words(
      "conntrack -I -t 300 -p udp -s 172.26.64.2 -d 198.51.100.2 --sport 9 --dport 54 "
      "--src-nat 198.51.100.1");
  host().Must(masqueraded);

  Forget({{.family = Family::kIpv4,
           .source = Ip::Parse("172.26.64.2"),
           .which = conntrack::Which::kUntranslated},
          {.family = Family::kIpv6,
           .source = Ip::Parse("fd00:26::2"),
           .which = conntrack::Which::kUntranslated}});

  const std::string left = List(host());
  EXPECT_THAT(left, Not(HasSubstr("src=172.26.64.2 dst=198.51.100.2 sport=40000")));
  EXPECT_THAT(left, HasSubstr("src=172.26.64.2 dst=198.51.100.2 sport=9"));
  EXPECT_THAT(left, HasSubstr("src=172.26.64.3"));
  EXPECT_THAT(left, Not(HasSubstr("src=fd00:26::2")));
  EXPECT_THAT(left, HasSubstr("src=fd00:26::3"));
}

TEST_P(Conntrack, ForgetsFlowsToAnAddress) {
  const std::string made = "conntrack -I -t 300 -p udp --sport 9 --dport 53 ";
  for (const std::string target : {"172.26.64.2", "172.26.64.3"}) {
    host().Must(
        Words(Cat(made, "-s 198.51.100.", target.back(), " -d 198.51.100.1 --dst-nat ", target)));
  }
  for (const std::string target : {"fd00:26::2", "fd00:26::3"}) {
    host().Must(Words(
        Cat(made, "-s 2001:db8:100::", target.back(), " -d 2001:db8:100::1 --dst-nat ", target)));
  }

  Forget({{.family = Family::kIpv4, .answered_by = Ip::Parse("172.26.64.2")},
          {.family = Family::kIpv6, .answered_by = Ip::Parse("fd00:26::2")}});

  const std::string left = List(host());
  EXPECT_THAT(left, Not(HasSubstr("src=172.26.64.2")));
  EXPECT_THAT(left, HasSubstr("src=172.26.64.3"));
  EXPECT_THAT(left, Not(HasSubstr("src=fd00:26::2")));
  EXPECT_THAT(left, HasSubstr("src=fd00:26::3"));
}

TEST_P(Conntrack, ForgetsThousandsOfPortsInOneCall) {
  Make(host(), {.from = "198.51.100.2", .to = kHostIp4, .to_port = 5353});
  std::vector<conntrack::UdpFlows> flows;
  for (std::uint16_t port = 1; port <= 10'000; ++port) {
    flows.push_back({.family = Family::kIpv4, .destination = Ip::Parse(kHostIp4), .port = port});
  }

  Forget(flows);

  EXPECT_EQ(List(host()), "");
}

TEST_P(Conntrack, ForgetsAFlowInAZone) {
  Make(host(), {.from = "198.51.100.2", .to = kHostIp4, .to_port = 53, .zone = "7"});

  Forget({{.family = Family::kIpv4, .port = 53}});

  EXPECT_EQ(List(host()), "");
}

TEST_P(Conntrack, ForgetsThousandsOfFlowsInOneCall) {
  MakeMany(3000, "--dport 53 --sport");

  Forget({{.family = Family::kIpv4, .port = 53}});

  EXPECT_EQ(List(host()), "");
}

TEST_P(Conntrack, ActsInTheNamespaceItIsGiven) {
  Make(host(), {.from = "198.51.100.2", .to = kHostIp4, .to_port = 53});
  Make(outside(), {.from = "198.51.100.2", .to = kHostIp4, .to_port = 53});

  ForgetIn(netlink::Netns::Open(outside().path()), {{.family = Family::kIpv4, .port = 53}});

  EXPECT_EQ(List(outside()), "");
  EXPECT_THAT(List(host()), HasSubstr("dport=53"));
}

TEST_P(Conntrack, SucceedsIfThereIsNothingToForget) {
  Forget({});
  Forget({{.family = Family::kIpv4, .port = 53}, {.family = Family::kIpv6, .port = 53}});
}

TEST_P(Conntrack, LeavesThousandsOfOtherFlows) {
  MakeMany(2000, "--sport 9 --dport");

  Forget({{.family = Family::kIpv4, .port = 1500}, {.family = Family::kIpv4, .port = 1501}});

  EXPECT_EQ(host().Must({"conntrack", "-C"}), "1998\n");
}

const Way kWays[] = {{"ByFilter", &conntrack::Conntrack::Forget},
                     {"OneByOne", &conntrack::Conntrack::ForgetOneByOne}};

INSTANTIATE_TEST_SUITE_P(Ways, Conntrack, ::testing::ValuesIn(kWays), kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
