// Beside other firewalls that really run, with and without br_netfilter, for both families: ours
// works, and what is not ours stays as it was.
#include "tests/plugin/lan_world.h"

namespace nomad_bridge::test {
namespace {

// The firewall, and bridge-nf-call-iptables.
using Setting = std::tuple<std::string, std::string>;

// firewalld takes seconds to start; firewalls_running_test.cc has it in every run.
const auto kSome = ::testing::Values(Setting("docker", "1"), Setting("ufw", "0"));
const auto kOthers = ::testing::Values(Setting("none", "0"),
                                       Setting("none", "1"),
                                       Setting("docker", "0"),
                                       Setting("ufw", "1"),
                                       Setting("firewalld", "0"),
                                       Setting("firewalld", "1"));

std::string NameOf(const ::testing::TestParamInfo<Setting>& setting) {
  return Cat(std::get<0>(setting.param), "BridgeNf", std::get<1>(setting.param));
}

template <typename Base>
class Beside : public Base, public ::testing::WithParamInterface<Setting> {
 protected:
  Beside() {
    Base::StartFirewall(std::get<0>(GetParam()));
    Base::SetBridgeNf(std::get<1>(GetParam()));
  }
};

using OwnBridge = Beside<CliWorld>;

TEST_P(OwnBridge, PublishesAndMasquerades) {
  const json config = Publish({Port(8080, 80)}, DualStack());
  const json result = Attach(config);
  Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
  Serve(outside(), Protocol::kUdp, {kOutsideIp4, kOutsideIp6}, 53, "outside");
  Node& neighbour = AddContainer("neighbour");
  Attach(DualStack(), As("neighbour", neighbour));
  for (int round = 0; round < 2; ++round) {
    for (const auto& [host_ip, outside_ip] :
         {std::pair(kHostIp4, kOutsideIp4), std::pair(kHostIp6, kOutsideIp6)}) {
      EXPECT_EQ(TcpText(outside(), host_ip, 8080), "page") << host_ip;
      EXPECT_EQ(TcpText(neighbour, host_ip, 8080), "page") << host_ip;
      EXPECT_EQ(Ask(container(), {.protocol = Protocol::kUdp, .to = outside_ip, .port = 53}),
                (Reply{"outside", host_ip}));
    }
    host().Must(Words("nft flush ruleset"));
    MustCheck(config, result);
  }
}

TEST_P(OwnBridge, IsReachedOnlyByPublishedPortsIfIsolated) {
  Attach(Publish({Port(8080, 80)}, DualStack({{"ingressPolicy", "isolated"}})));
  Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
  Node& other = AddContainer("other");
  json config = kOther;
  config["ingressPolicy"] = "isolated";
  Attach(config, As("other", other));
  EXPECT_EQ(TcpText(other, kHostIp4, 8080), "page");
  EXPECT_TRUE(IsSilent(other, {.to = "172.26.64.2", .port = 80}));
  EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "page");
}

TEST_P(OwnBridge, LeavesNothingBehind) {
  UseOnce(DualStack());
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  const json config = Publish({Port(8080, 80)}, DualStack());
  Attach(config);
  Detach(config);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

INSTANTIATE_TEST_SUITE_P(Firewalls, OwnBridge, kSome, NameOf);
INSTANTIATE_TEST_SUITE_P(ThoroughFirewalls, OwnBridge, kOthers, NameOf);

using LanBridgeBeside = Beside<LanWorld>;

TEST_P(LanBridgeBeside, ConnectsAllocationsAndTheLan) {
  AddMachine();
  const bool is_filtered = TcpText(outside(), "198.51.100.77", kPort).empty();
  Attach(DualStack());
  Attach(OnLan(), As("other", other_));
  ExpectSeenAs(container(), kHostIp4, kHostIp6);
  if (is_filtered && std::get<0>(GetParam()) != "firewalld") {
    EXPECT_EQ(AskOutside(other_, kOutsideIp4), (Reply{"outside", "198.51.100.50"}));
    for (const char* const program : {"iptables", "ip6tables"}) {
      host().Must(Words(Cat(program, " -I NOMAD-ADMIN -i lan -o lan -j ACCEPT")));
    }
  } else if (is_filtered) {
    host().Must(Words("firewall-cmd --zone=trusted --add-interface=lan"));
  }
  Serve(other_, Protocol::kTcp, {"198.51.100.50", "2001:db8:100::50"}, kPort, "on the LAN");
  EXPECT_EQ(TcpText(outside(), "198.51.100.50", kPort), "on the LAN");
  EXPECT_EQ(TcpText(outside(), "2001:db8:100::50", kPort), "on the LAN");
  ExpectSeenAs(other_, "198.51.100.50", "2001:db8:100::50");
}

// Reached or not: that is for the operator's firewall to say.
TEST_P(LanBridgeBeside, LeavesForeignTrafficToTheOtherFirewall) {
  AddMachine();
  Node& beyond = AddBeyond();
  host().Must(
      Words(Cat("iptables -t nat -A PREROUTING -i beyond -p tcp --dport 7070 -j DNAT "
                "--to-destination 198.51.100.77:",
                kPort)));
  const auto reached = [&] {
    return std::vector<std::string>{TcpText(machine(), kOutsideIp4, kPort),
                                    TcpText(machine(), kOutsideIp6, kPort),
                                    TcpText(outside(), "198.51.100.77", kPort),
                                    TcpText(beyond, "203.0.113.1", 7070),
                                    TcpText(beyond, kOutsideIp4, kPort)};
  };
  const std::vector<std::string> before = reached();
  const json isolated = Publish({Port(8080, 80)}, OnLan({{"ingressPolicy", "isolated"}}));
  Attach(isolated);
  Attach(DualStack(), As("other", other_));
  EXPECT_EQ(reached(), before);
  Detach(isolated);
  Detach(DualStack(), As("other", other_));
  EXPECT_EQ(reached(), before);
}

INSTANTIATE_TEST_SUITE_P(Firewalls, LanBridgeBeside, kSome, NameOf);
INSTANTIATE_TEST_SUITE_P(ThoroughFirewalls, LanBridgeBeside, kOthers, NameOf);

}  // namespace
}  // namespace nomad_bridge::test
