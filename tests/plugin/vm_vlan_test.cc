// vlan, vlanTrunk, preserveDefaultVlan: which containers reach each other, and what CHECK makes of
// it. Only under a kernel with bridge VLAN filtering: see tests/with-kernel.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kVlan100 = R"({"vlan": 100})";

class Vlan : public CliWorld {
 protected:
  // Another network on the same bridge.
  static json Other(const char* changes) {
    return Config(R"({"name": "other", "ipam": {"ranges": [[{"subnet": "10.9.0.0/16"}]]}})",
                  changes);
  }

  // The member VLANs of a port, as "bridge vlan show" lists them: "100 PVID Egress Untagged".
  std::string VlansOf(const std::string& port) {
    std::string text;
    for (const json& link : host().Json({"bridge", "-j", "vlan", "show", "dev", port})) {
      for (const json& vlan : link.at("vlans")) {
        text += Cat(text.empty() ? "" : ", ", vlan.at("vlan").get<int>());
        for (const json& flag : vlan.value("flags", json::array())) {
          text += Cat(" ", flag.get<std::string>());
        }
      }
    }
    return text;
  }
};

TEST_F(Vlan, OnlyTheSameVlanTalksAndEachHasItsGateway) {
  Node& same = AddContainer("same");
  Node& other = AddContainer("other");
  const json result = Attach(Config(kVlan100));
  const json neighbour = Attach(Config(kVlan100), As("same", same));
  const json foreign = Attach(Other(R"({"vlan": 200})"), As("other", other));

  EXPECT_EQ(VlansOf(HostVethOf(result)), "100 PVID Egress Untagged");
  EXPECT_EQ(VlansOf(HostVethOf(foreign)), "200 PVID Egress Untagged");
  EXPECT_EQ(At(result, "/interfaces/3/name"), "nomad.100");
  EXPECT_EQ(At(result, "/interfaces/3/mac"), LinkOn(host(), "nomad.100").at("address"));
  EXPECT_EQ(AddressesOn(host(), "nomad.100"), std::vector<std::string>{"172.26.64.1/20"});
  EXPECT_EQ(AddressesOn(host(), "nomad.200"), std::vector<std::string>{"10.9.0.1/16"});
  EXPECT_TRUE(AddressesOn(host(), "nomad").empty());

  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
  EXPECT_TRUE(Ping(other, "10.9.0.1"));
  EXPECT_TRUE(Ping(container(), AddressOf(neighbour)));
  EXPECT_THAT(RunLine("doctor bridge.uplink"), Exits(0, Out(HasSubstr("ok    bridge.uplink"))));

  // On the same wire, in another VLAN.
  other.Must({"ip", "address", "add", "172.26.79.9/20", "dev", "eth0"});
  EXPECT_FALSE(Ping(container(), "172.26.79.9"));
}

// With br_netfilter, as Nomad asks for it, and without.
class VlanRules : public Vlan, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(BridgeNetfilter, VlanRules, ::testing::Values("0", "1"));

TEST_P(VlanRules, AllowPublishedPortsAndTheWayOut) {
  host().SetSysctl("net/bridge/bridge-nf-call-iptables", GetParam());
  host().Must({"iptables", "-P", "FORWARD", "DROP"});
  const Server inside = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "inside");
  const Server out = Server::Start(outside(), Protocol::kTcp, "0.0.0.0", 81, "outside");
  Attach(Publish({Port(8080, 80)}, Config(kVlan100)));

  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "inside");
  EXPECT_EQ(TcpText(host(), "127.0.0.1", 8080), "inside");
  EXPECT_EQ(TcpText(container(), kHostIp4, 8080), "inside") << "by its own host port";
  const std::optional<Reply> reply = Ask(container(), {.to = kOutsideIp4, .port = 81});
  EXPECT_EQ(reply, (Reply{"outside", kHostIp4}));
}

// Policies do not judge frames with tags. Each command that introduces policies says so.
TEST_F(Vlan, ATrunkThatPoliciesSelectIsNamed) {
  Attach(Config(kVlan100), As("member", AddContainer("member")));  // makes the bridge
  fs::create_directories("/run/policies");
  std::ofstream("/run/policies/p.json")
      << R"({"version": 1, "policies": [{"name": "p", "to": {"namespace": "*"}, "allow": []}]})";
  EXPECT_THAT(RunLine("policy apply /run/policies"), Exits(0));
  const auto named =
      HasSubstr("policies do not apply to what container 'trunk' of network 'nomad'");
  EXPECT_THAT(RunPlugin("ADD",
                        Config(R"({"isGateway": false, "isDefaultGateway": false,
                                   "vlanTrunk": [{"id": 7}]})"),
                        As("trunk", AddContainer("trunk"), NomadArgs("billing", "trunk"))),
              Exits(0, Err(named)));
  EXPECT_THAT(RunLine("policy status"), Err(named));
  EXPECT_THAT(RunLine("doctor policy.traffic").out, named);
}

TEST_F(Vlan, ATrunkCarriesItsVlansWithTags) {
  const json member_result = Attach(Config(kVlan100), As("member", AddContainer("member")));
  const json result = Attach(Other(R"({"isGateway": false, "isDefaultGateway": false,
                "vlanTrunk": [{"minID": 99, "maxID": 101}, {"id": 7}]})"));

  EXPECT_EQ(VlansOf(HostVethOf(result)), "1 PVID Egress Untagged, 7, 99, 100, 101");
  container().Must(Words("ip link add link eth0 name tagged type vlan id 100"));
  container().Must({"ip", "address", "add", "172.26.79.9/20", "dev", "tagged"});
  container().Must({"ip", "link", "set", "tagged", "up"});
  EXPECT_TRUE(Ping(container(), AddressOf(member_result)));
}

TEST_F(Vlan, TheDefaultVlanIsKeptIfConfigured) {
  const json result = Attach(Config(R"({"vlan": 100, "preserveDefaultVlan": true})"));
  EXPECT_EQ(VlansOf(HostVethOf(result)), "1 Egress Untagged, 100 PVID Egress Untagged");
}

TEST_F(Vlan, ABridgeWithoutVlanFilteringIsAnErrorAndStaysAsItIs) {
  Attach(Config());
  Detach(Config());

  EXPECT_THAT(MustRefuse(7, Config(kVlan100)),
              Msg(HasSubstr("bridge 'nomad' has no VLAN filtering")));
}

TEST_F(Vlan, ATakenGatewaysNameIsAnErrorThatNamesIt) {
  Attach(Config(kVlan100));
  Detach(Config(kVlan100));
  host().Must({"ip", "link", "delete", "nomad.100"});
  host().Must({"ip", "link", "add", "nomad.100", "type", "bridge"});

  EXPECT_THAT(MustRefuse(102, Config(kVlan100)), Msg(HasSubstr("'nomad.100'")));
}

TEST_F(Vlan, InVlan1TheBridgeIsTheGateway) {
  const json result = Attach(Config(R"({"vlan": 1})"));
  EXPECT_EQ(result.at("interfaces").size(), 3U);
  EXPECT_EQ(VlansOf(HostVethOf(result)), "1 PVID Egress Untagged");
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
}

// What the reference plugin leaves for the gateway: a veth pair.
TEST_F(Vlan, AGatewayPairOfTheReferencePluginsIsReused) {
  host().Must({"ip", "link", "add", "nomad", "type", "bridge", "vlan_filtering", "1"});
  host().Must({"ip", "link", "add", "nomad.100", "type", "veth", "peer", "name", "veth9"});
  host().Must({"ip", "link", "set", "veth9", "master", "nomad", "up"});
  host().Must({"bridge", "vlan", "del", "dev", "veth9", "vid", "1"});
  host().Must({"bridge", "vlan", "add", "dev", "veth9", "vid", "100", "pvid", "untagged"});

  const json result = Attach(Config(kVlan100));

  EXPECT_EQ(At(result, "/interfaces/3/name"), "nomad.100");
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
}

TEST_F(Vlan, DelLeavesTheGatewayToTheOthers) {
  Node& other = AddContainer("other");
  Attach(Config(kVlan100), As("other", other));
  const Snapshot before = TakeSnapshot().Of({"host link"});
  Attach(Config(kVlan100));
  Detach(Config(kVlan100));

  EXPECT_TRUE(Unchanged(before, TakeSnapshot().Of({"host link"})));
  EXPECT_TRUE(Ping(other, "172.26.64.1"));
}

TEST_F(Vlan, EveryChangeIsReportedAndRepaired) {
  const json config = Config(kVlan100);
  const json result = Attach(config);
  const std::string port = HostVethOf(result);
  const json read_only = Config(config.dump().c_str(), R"({"repairOnCheck": false})");
  for (const std::string& damage : {Cat("bridge vlan del dev ", port, " vid 100"),
                                    Cat("bridge vlan add dev ", port, " vid 7"),
                                    Cat("ip link set ", port, " nomaster"),
                                    std::string("ip link delete nomad.100"),
                                    std::string("ip link set nomad.100 down"),
                                    std::string("bridge vlan del dev nomad vid 100 self"),
                                    std::string("ip address flush dev nomad.100"),
                                    std::string("ip link delete nomad")}) {
    host().Must({"sh", "-c", damage});
    EXPECT_THAT(Check(read_only, result), Fails(103)) << damage;

    EXPECT_THAT(Check(config, result), Exits(0, Err(HasSubstr("repaired")))) << damage;

    EXPECT_EQ(VlansOf(port), "100 PVID Egress Untagged") << damage;
    EXPECT_TRUE(Ping(container(), "172.26.64.1")) << damage;
  }
}

TEST_F(Vlan, ChangedMembershipIsRepairedByReconcile) {
  const std::string port = HostVethOf(Attach(Config(kVlan100)));
  for (const std::string& damage : {Cat("bridge vlan del dev ", port, " vid 100"),
                                    Cat("bridge vlan add dev ", port, " vid 7"),
                                    std::string("bridge vlan del dev nomad vid 100 self")}) {
    host().Must(Words(damage));

    EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("repaired: ")))) << damage;

    EXPECT_EQ(VlansOf(port), "100 PVID Egress Untagged") << damage;
    EXPECT_TRUE(Ping(container(), "172.26.64.1")) << damage;
  }
}

TEST_F(Vlan, AMacCheckHoldsInItsVlan) {
  const Outcome add = RunPlugin("ADD", Config(R"({"vlan": 100, "macspoofchk": true})"));
  if (add.exit_code != 0) {  // this kernel locks no ports: link_port_test.cc
    EXPECT_THAT(Details(add), HasSubstr("5.18"));
    return;
  }
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));

  container().Must({"ip", "link", "set", "eth0", "address", "02:00:00:00:00:0f"});
  container().Must({"ip", "neighbour", "flush", "all"});
  EXPECT_FALSE(Ping(container(), "172.26.64.1"));
}

}  // namespace
}  // namespace nomad_bridge::test
