// Policies beside other firewalls that really run, against forged labels and sources, for an
// allocation in two networks, and beside many ADDs and DELs.
#include "tests/plugin/policy_world.h"
#include "tests/support/frames.h"

namespace nomad_bridge::test {
namespace {

const json kFromOutside = {{"name", "outside"},
                           {"to", {{"namespace", "prod"}, {"job", "api"}}},
                           {"allow", {{{"from", {"outside"}}, {"ports", {"tcp/80"}}}}}};

// The firewall, and bridge-nf-call-iptables.
using Setting = std::tuple<std::string, std::string>;

class PolicyBeside : public PolicyWorld, public ::testing::WithParamInterface<Setting> {
 protected:
  PolicyBeside() {
    StartFirewall(std::get<0>(GetParam()));
    SetBridgeNf(std::get<1>(GetParam()));
  }

  // What an allocation hears of itself by its published ports, "" if nothing.
  [[nodiscard]] static std::vector<std::string> Hairpins(const Node& node) {
    std::vector<std::string> heard;
    const auto patience = std::chrono::milliseconds(700);
    for (const Call& call :
         {Call{.to = kHostIp4, .port = 8080, .patience = patience},
          Call{.to = kHostIp6, .port = 8080, .patience = patience},
          Call{.protocol = Protocol::kUdp, .to = kHostIp4, .port = 8080, .patience = patience},
          Call{.to = kHostIp4, .port = 8081, .patience = patience}}) {
      heard.push_back(Ask(node, call).value_or(Reply()).text);
    }
    return heard;
  }
};

TEST_P(PolicyBeside, RefusesTheSameAsWithoutTheOtherFirewall) {
  Node& api =
      Start("prod",
            "api",
            Publish({Port(8080, 80), Port(8080, 80, "udp"), Port(8081, 80, "tcp", "0.0.0.0")},
                    DualStack()));
  Node& lb = Start("prod", "lb");
  Node& dev = Start("dev", "test");
  for (const std::string rules : {"as applied", "after a reconcile"}) {
    SCOPED_TRACE(rules);
    Apply({kNamespaces});
    EXPECT_TRUE(Reaches(lb, api));
    EXPECT_FALSE(Reaches(dev, api));
    EXPECT_EQ(TcpText(lb, kHostIp4, 8080), "api");
    EXPECT_THAT(Hairpins(api), Each("api"));
    EXPECT_TRUE(IsSilent(dev, {.to = kHostIp4, .port = 8080}));
    EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp6, .port = 8080}));
    EXPECT_EQ(TcpText(host(), AddressOfNode(api), 80), "api");
    Apply({kNamespaces, kFromOutside});
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "api");
    EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "api");
    EXPECT_THAT(Hairpins(api), Each("api"));
    // What it sends to itself by its published ports is not from outside.
    Apply({kFromOutside});
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8081), "api");
    EXPECT_THAT(Hairpins(api), Each(""));
    host().Must(Words("nft flush ruleset"));
    EXPECT_EQ(RunLine("reconcile").exit_code, 0);
  }
  EXPECT_FALSE(Reaches(dev, api));
}

INSTANTIATE_TEST_SUITE_P(Firewalls,
                         PolicyBeside,
                         ::testing::Combine(::testing::Values("docker", "ufw", "firewalld"),
                                            ::testing::Values("0", "1")),
                         [](const ::testing::TestParamInfo<Setting>& setting) {
                           return Cat(
                               std::get<0>(setting.param), "BridgeNf", std::get<1>(setting.param));
                         });

class PolicyIdentity : public PolicyWorld {};

// A job's author writes `cni { args }`, and interpolates what Nomad only checks before.
TEST_F(PolicyIdentity, AForgedLabelOpensNothing) {
  Node& api = Start("prod", "api");
  Apply({kNamespaces});
  Node& forger = AddContainer("forger");
  for (const std::string label : {"nomad_namespace", "NOMAD_NAMESPACE", "Nomad_Namespace"}) {
    EXPECT_THAT(RunPlugin("ADD",
                          DualStack(),
                          As("forger", forger, Cat(LabelsOf("dev", "x"), ';', label, "=prod"))),
                Fails(4, MsgAndDetails(HasSubstr(label))))
        << label;
  }
  results_["forger"] = Attach(DualStack(), As("forger", forger, LabelsOf("dev", "prod")));
  EXPECT_FALSE(Reaches(forger, api));
}

TEST_F(PolicyIdentity, AForgedSourceReachesNobody) {
  Node& api = Start("prod", "api");
  Node& lb = Start("prod", "lb");
  Node& dev = Start("dev", "test");
  Apply({kNamespaces});
  Server server4 = Server::Start(api, Protocol::kUdp, "0.0.0.0", 9000, "heard");
  Server server6 = Server::Start(api, Protocol::kUdp, "::", 9000, "heard");
  for (const int family : {4, 6}) {
    for (const Mac& mac : {MacOf(dev, "eth0"), MacOf(lb, "eth0")}) {
      SendFrame(dev,
                "eth0",
                UdpFrame({.to = MacOf(api, "eth0"), .from = mac},
                         {.from = AddressOfNode(lb, family), .to = AddressOfNode(api, family)}));
    }
    // Behind them on the same way.
    EXPECT_EQ(UdpText(lb, AddressOfNode(api, family), 9000), "heard");
    EXPECT_THAT((family == 4 ? server4 : server6).Heard(), ElementsAre(AddressOfNode(lb, family)));
  }
}

TEST_F(PolicyIdentity, TheUnspecifiedAddressMayOnlySendIcmpv6) {
  Node& api = Start("prod", "api", DualStack({{"sourceCheck", false}}));
  Node& dev = Start("dev", "test", DualStack({{"sourceCheck", false}}));
  Node& checked = Start("dev", "checked");
  Node& open = Start("open", "open");
  Apply({{{"name", "api"}, {"to", {{"namespace", "prod"}}}, {"allow", {{{"from", {"outside"}}}}}}});
  for (Node* const to : {&api, &open}) {
    Server server = Server::Start(*to, Protocol::kUdp, "::", 9000, "heard");
    for (Node* const from : {&dev, &checked}) {
      if (from == &dev && to == &open) {
        continue;  // no policy is about either, and nothing is checked
      }
      SendFrame(*from,
                "eth0",
                UdpFrame({.to = MacOf(*to, "eth0"), .from = MacOf(*from, "eth0")},
                         {.from = "::", .to = AddressOfNode(*to, 6)}));
    }
    EXPECT_EQ(UdpText(host(), AddressOfNode(*to, 6), 9000), "heard");
    EXPECT_THAT(server.Heard(), SizeIs(1)) << to->name();
  }
}

// Also where an allocation is on the LAN's bridge, which is one of `bridges` then.
TEST_F(PolicyIdentity, AMachineOnALanDoesNotPassAsAnAllocationOfAnotherNetwork) {
  host().Must(Words("ip link add lan0 up type bridge nf_call_iptables 1 nf_call_ip6tables 1"));
  host().Must(Words("ip address add 10.9.0.1/24 dev lan0"));
  host().Must(Words("ip address add fd00:9::1/64 dev lan0 nodad"));
  Node& machine = AddContainer("machine");
  host().Must(Words("ip link add vnet0 up master lan0 type veth peer name eth0 netns machine"));
  machine.Must(Words("ip link set eth0 up"));
  for (const char* const ifname : {"all", "lan0"}) {
    host().SetSysctl(Cat("net/ipv4/conf/", ifname, "/rp_filter"), "2");
  }
  Start("infra", "x", Config(R"({"name": "lan", "bridge": "lan0", "isGateway": false, "ipam":
      {"ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd00:9::/64"}]]}})"));
  Node& api = Start("prod", "api", Publish({Port(8125, 8125, "udp")}, DualStack()));
  Node& lb = Start("prod", "lb");
  Apply({kNamespaces});
  Server server4 = Server::Start(api, Protocol::kUdp, "0.0.0.0", 8125, "heard");
  Server server6 = Server::Start(api, Protocol::kUdp, "::", 8125, "heard");
  for (const int family : {4, 6}) {
    const std::string to = family == 4 ? "10.9.0.1" : "fd00:9::1";
    SendFrame(machine,
              "eth0",
              UdpFrame({.to = MacOf(host(), "lan0"), .from = MacOf(machine, "eth0")},
                       {.from = AddressOfNode(lb, family), .to = to, .port = 8125}));
    EXPECT_EQ(UdpText(lb, AddressOfNode(api, family), 8125), "heard");
    EXPECT_THAT((family == 4 ? server4 : server6).Heard(), SizeIs(1)) << family;
  }
}

TEST_F(PolicyIdentity, AnAllocationInTwoNetworksIsJudgedByEachAddress) {
  const json other = Config(R"({"name": "other", "bridge": "other0", "ipam": {"ranges": [
      [{"subnet": "10.97.0.0/24"}], [{"subnet": "fd00:97::/64"}]]}})");
  Node& api = Start("prod", "api");
  Variables second = As(api.name(), api, LabelsOf("prod", "api"));
  second["CNI_IFNAME"] = "eth1";
  const json in_other = Attach(other, second);
  Node& lb = Start("prod", "lb", other);
  Node& dev = Start("dev", "test", other);
  Node& near = Start("dev", "near");
  Apply({kNamespaces});
  for (const int family : {4, 6}) {
    SCOPED_TRACE(family);
    EXPECT_EQ(TcpText(lb, AddressOf(in_other, family), 80), "api");
    EXPECT_TRUE(IsSilent(dev, {.to = AddressOf(in_other, family), .port = 80}));
    EXPECT_TRUE(IsSilent(near, {.to = AddressOf(in_other, family), .port = 80}));
    EXPECT_TRUE(IsSilent(near, {.to = AddressOfNode(api, family), .port = 80}));
    // As a client it has the address of the network that its way leads through.
    EXPECT_EQ(TcpText(api, AddressOfNode(lb, family), 80), "lb");
    EXPECT_TRUE(IsSilent(api, {.to = AddressOfNode(dev, family), .port = 80}));
  }
  MustRun("DEL", other, second);
  EXPECT_THAT(RunLine("reconcile -dry-run"), Exits(0));
  EXPECT_FALSE(Reaches(near, api));
}

class PolicyCrowd : public PolicyWorld {
 protected:
  using Members = std::vector<std::pair<std::string, Variables>>;

  [[nodiscard]] Members MakeMembers(int wave, int count) {
    Members members;
    for (int i = 0; i < count; ++i) {
      const std::string name = Format("c{}-{}", wave, i);
      const std::string labels =
          LabelsOf(i % 2 == 0 ? "prod" : "dev", Cat("job", wave * count + i));
      members.emplace_back(name, As(name, AddContainer(name), labels));
    }
    return members;
  }

  // While `policy` is applied.
  void RunAll(const std::string& verb, const Members& members, const json& policy) {
    std::vector<Process> running;
    running.reserve(members.size());
    for (const auto& each : members) {
      running.push_back(StartPlugin(verb, DualStack(), each.second));
    }
    Apply({policy});
    for (Process& process : running) {
      const Outcome outcome = process.Wait();
      EXPECT_EQ(outcome.exit_code, 0) << outcome;
    }
  }
};

TEST_F(PolicyCrowd, AHundredAllocationsComeAndGoDuringAppliesWithoutAnOpening) {
  constexpr int kWaves = 10;
  constexpr int kAtOnce = 10;
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  Apply({kNamespaces});
  // The kernel sends one answer a second to whom it refuses: not waited for.
  Sender sender(dev, AddressOfNode(api), "0.005");
  for (int wave = 0; wave < kWaves; ++wave) {
    const Members members = MakeMembers(wave, kAtOnce);
    for (const std::string verb : {"ADD", "DEL"}) {
      RunAll(verb, members, wave % 2 == 0 ? kNamespacesByPort : kNamespaces);
    }
  }
  const Sender::Tries tries = sender.Stop();
  EXPECT_EQ(tries.reached, 0);
  EXPECT_GT(tries.all, 2 * kWaves);
  EXPECT_THAT(RunLine("reconcile -dry-run"), Exits(0));
  const json map = host().Json(Words("nft -j list map inet nomad-bridge in4"));
  EXPECT_THAT(At(map, "/nftables/1/map/elem"), SizeIs(2));
}

}  // namespace
}  // namespace nomad_bridge::test
