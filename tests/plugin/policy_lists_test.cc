// Policies and lists of plugins: a list without `firewall`, an attachment of which only the address
// is ours, and what commands say of those.
#include "tests/plugin/policy_world.h"

namespace nomad_bridge::test {
namespace {

json Chained(const std::string& type, const json& result) {
  json config = {{"cniVersion", "1.0.0"}, {"name", "web"}, {"type", type}, {"prevResult", result}};
  if (type == "portmap") {
    config["runtimeConfig"]["portMappings"] = json::array({Port(8080, 80)});
  }
  return config;
}

class PolicyLists : public PolicyWorld, public ::testing::WithParamInterface<const char*> {
 protected:
  PolicyLists() { SetBridgeNf(GetParam()); }

  [[nodiscard]] Variables Of(const Node& node,
                             const std::string& nomad_namespace,
                             const std::string& job) {
    return As(node.name(), node, LabelsOf(nomad_namespace, job));
  }
  // An allocation of the list `bridge`, `more`, with a bridge of its own.
  Node& StartIn(const std::string& nomad_namespace,
                const std::string& job,
                const std::vector<std::string>& more = {}) {
    Node& node = AddContainer(Cat(nomad_namespace, '-', job));
    const Variables variables = Of(node, nomad_namespace, job);
    results_[node.name()] = json::parse(MustRunAs("bridge", "ADD", kWebBridge, variables).out);
    for (const std::string& type : more) {
      MustRunAs(type, "ADD", Chained(type, results_.at(node.name())), variables);
    }
    Serve(node, Protocol::kTcp, {"::"}, 80, job);
    Serve(node, Protocol::kUdp, {"::"}, 80, job);
    return node;
  }
};

TEST_P(PolicyLists, AreJudgedWithoutFirewall) {
  Node& api = StartIn("prod", "api");
  Node& lb = StartIn("prod", "lb", {"portmap"});
  Node& dev = StartIn("dev", "etl", {"firewall"});
  Apply({kNamespaces});
  EXPECT_TRUE(Reaches(lb, api));
  EXPECT_TRUE(Reaches(api, lb));
  EXPECT_FALSE(Reaches(dev, api));
  EXPECT_FALSE(Reaches(dev, lb));
  EXPECT_FALSE(Reaches(lb, dev));
  EXPECT_THAT(Test("etl", "api"), Exits(1));
  EXPECT_THAT(Test("lb", "api"), Exits(0));
  EXPECT_THAT(RunLine("policy show api"), Exits(0, Out(HasSubstr("Reached by  namespaces\n"))));
  EXPECT_EQ(RunLine("doctor policy").exit_code, 0);
  EXPECT_EQ(RunLine("reconcile -dry-run").exit_code, 0);
  EXPECT_THAT(Test("etl", "outside"), Exits(0));
}

TEST_P(PolicyLists, WithoutFirewallAreNotOutside) {
  Node& api = StartIn("prod", "api", {"firewall"});
  Node& dev = StartIn("dev", "etl");
  json open_to_outside = kNamespaces;
  open_to_outside["allow"].push_back({{"from", {"outside"}}});
  Apply({open_to_outside});
  EXPECT_FALSE(Reaches(dev, api));
  EXPECT_THAT(Test("etl", "api"), Exits(1));
}

TEST_P(PolicyLists, LeaveNothingBehind) {
  Apply({kNamespaces});
  StartIn("prod", "lb");
  Node& api = StartIn("prod", "api", {"portmap"});
  const std::string address = AddressOfNode(api);
  ASSERT_THAT(ListWithoutFlows(), HasSubstr(address));
  const Variables variables = Of(api, "prod", "api");
  MustRunAs("portmap", "DEL", Chained("portmap", results_.at(api.name())), variables);
  MustRunAs("bridge", "DEL", kWebBridge, variables);
  EXPECT_THAT(ListWithoutFlows(), Not(HasSubstr(address)));
  EXPECT_THAT(host().Must(Words("nft list table bridge nomad-bridge")), Not(HasSubstr(address)));
  EXPECT_EQ(RunLine("reconcile -dry-run").exit_code, 0);
  EXPECT_THAT(RunLine("gc -dry-run -all"), Exits(_, Out(Not(HasSubstr("has no owner")))));
}

// A job's author can write CNI_ARGS. The reference portmap does not read it.
TEST_P(PolicyLists, NoMistakeInItsArgumentsHidesAnAllocation) {
  Node& api = AddContainer("api");
  const json result = {{"cniVersion", "1.0.0"},
                       {"interfaces", json::array()},
                       {"ips", {{{"address", "10.7.0.9/24"}}}}};
  const std::string config = Chained("portmap", result).dump();
  const Variables variables = As("api", api, "NOMAD_NAMESPACE=dev;nomad_namespace=prod");
  EXPECT_THAT(RunPlugin("ADD", config, variables, "portmap"), Exits(0));
  EXPECT_THAT(RunPlugin("DEL", config, variables, "portmap"), Exits(0));
  Apply({kNamespaces});
  EXPECT_THAT(RunPlugin("ADD", config, variables, "portmap"), Fails(4, Msg(HasSubstr("CNI_ARGS"))));
}

TEST_P(PolicyLists, AreRefusedWhilePoliciesAreRequired) {
  const NodeConfig config(R"({"policy": {"required": true}})");
  Node& api = AddContainer("api");
  EXPECT_THAT(RunPlugin("ADD", kWebBridge.dump(), Of(api, "prod", "api"), "bridge"), Fails(11));
  Apply({kNamespaces});
  EXPECT_EQ(RunPlugin("ADD", kWebBridge.dump(), Of(api, "prod", "api"), "bridge").exit_code, 0);
}

// As behind another plugin's bridge.
TEST_P(PolicyLists, OnlyAnAddressOfOursIsJudgedByNobody) {
  host().Must(Words("ip link add other0 up address 02:00:00:00:00:01 type bridge"));
  host().Must(Words("ip address add 10.9.0.1/24 dev other0"));
  Node& api = AddContainer("api");
  Node& dev = Start("dev", "etl");
  host().Must(Words("ip link add other-a up master other0 type veth peer name eth0 netns api"));
  json config = {{"cniVersion", "1.0.0"},
                 {"name", "other"},
                 {"type", "bridge"},
                 {"ipam", {{"type", "host-local"}, {"subnet", "10.9.0.0/24"}}}};
  const json result =
      json::parse(MustRunAs("host-local", "ADD", config, Of(api, "prod", "api")).out);
  api.Must(
      Words(Cat("ip address add ", At(result, "/ips/0/address").get<std::string>(), " dev eth0")));
  api.Must(Words("ip link set eth0 up"));
  api.Must(Words("ip route add default via 10.9.0.1"));
  Serve(api, Protocol::kTcp, {"0.0.0.0"}, 80, "api");
  WritePolicies({kNamespaces});
  const auto is_named =
      HasSubstr("policies do not apply to container 'api' of network 'other': nomad-bridge has");
  EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(0, Err(is_named)));
  EXPECT_EQ(TcpText(dev, AddressOf(result), 80), "api");
  EXPECT_THAT(Test("etl", AddressOf(result)), Exits(0));
  EXPECT_THAT(Test("etl", "api"), Exits(0));
  EXPECT_THAT(RunLine("policy show api"), Exits(0, Out(HasSubstr("no policy is in force for it"))));
  EXPECT_THAT(RunLine("policy status"), Exits(0, Err(is_named)));
  EXPECT_THAT(RunLine("doctor policy"), Exits(1, Out(is_named)));
}

// As of macvlan, whose parent serves others, too.
TEST_P(PolicyLists, AddSaysWhatPoliciesCannotJudgeAndIsRefusedIfTheyAreRequired) {
  Apply({kNamespaces});
  Node& api = AddContainer("api");
  const json result = {{"cniVersion", "1.0.0"},
                       {"interfaces", {{{"name", "eth0"}, {"sandbox", api.path()}}}},
                       {"ips", {{{"interface", 0}, {"address", "10.9.0.2/24"}}}}};
  const std::string config = Chained("firewall", result).dump();
  const auto is_named = HasSubstr("policies do not apply to container 'api'");
  EXPECT_THAT(RunPlugin("ADD", config, Of(api, "prod", "api"), "firewall"),
              Exits(0, Err(is_named)));
  EXPECT_THAT(RunPlugin("ADD", config, As("api", api), "firewall"), Exits(0, Err("")));
  const NodeConfig required(R"({"policy": {"required": true}})");
  EXPECT_THAT(RunPlugin("ADD", config, Of(api, "prod", "api"), "firewall"),
              Fails(102, Msg(is_named)));
}

// Also the first one that needs the static rules of iptables.
TEST_P(PolicyLists, GoOnWithoutFirewallWhereForwardedPacketsAreDropped) {
  if (std::string_view(GetParam()) == "0") {
    DropForwarded();
  }
  Node& api = StartIn("prod", "api");
  Node& dev = StartIn("dev", "etl");
  ASSERT_TRUE(Reaches(dev, api));
  Apply({Audited()});
  EXPECT_TRUE(Reaches(dev, api));
  Node& late = StartIn("dev", "late");
  EXPECT_TRUE(Reaches(late, api));
  Apply({kNamespaces});
  EXPECT_TRUE(Reaches(late, dev));
  EXPECT_FALSE(Reaches(dev, api));
}

INSTANTIATE_TEST_SUITE_P(BridgeNfCall,
                         PolicyLists,
                         ::testing::Values("0", "1"),
                         [](const auto& row) { return row.param[0] == '0' ? "Off" : "On"; });

}  // namespace
}  // namespace nomad_bridge::test
