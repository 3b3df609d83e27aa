// Applies policies as an operator does, and has allocations with Nomad's labels that the policies
// select.
#pragma once

#include <regex>

#include "tests/plugin/cli_world.h"
#include "tests/support/named.h"

namespace nomad_bridge::test {

// What is in force, as an ADD reads it.
constexpr const char* kCompiled = "/run/nomad-bridge/.policy";

// Tries all the time to reach port 80 of `to`, by a new connection each, which is given up after
// `seconds`.
class Sender {
 public:
  struct Tries {
    int reached = -1;
    int all = 0;
  };

  Sender(const Node& from, const std::string& to, const std::string& seconds)
      : process_(Process::Start(
            {.argv = {"python3", "-c", kClient, to, seconds}, .in_child = [&] { from.Enter(); }})) {
    EXPECT_TRUE(Soon([] { return FindStatus("/run/begun").has_value(); }));
  }

  [[nodiscard]] Tries Stop() {
    ReplaceFile("/run/over", "");
    std::istringstream counts(process_.Wait().out);
    Tries tries;
    counts >> tries.reached >> tries.all;
    return tries;
  }

 private:
  static constexpr const char* kClient = R"(
import os, socket, sys
reached = tried = 0
open('/run/begun', 'w')
while not os.path.exists('/run/over'):
    with socket.socket() as s:
        s.settimeout(float(sys.argv[2]))
        reached += s.connect_ex((sys.argv[1], 80)) == 0
        tried += 1
print(reached, tried)
)";

  Process process_;
};

class PolicyWorld : public CliWorld {
 protected:
  // All further applications read it alone.
  static constexpr const char* kDirectory = "/run/policy.d";

  static void WritePolicies(const std::vector<json>& policies,
                            const json& addresses = json::object()) {
    EnsureDirectory(kDirectory);
    ReplaceFile(Cat(kDirectory, "/policies.json"),
                json({{"version", 1}, {"addresses", addresses}, {"policies", policies}}).dump());
  }
  // NOLINTNEXTLINE(modernize-use-nodiscard): most callers ignore the output
  Outcome Apply(const std::vector<json>& policies, const json& addresses = json::object()) {
    WritePolicies(policies, addresses);
    Outcome outcome = Run({"policy", "apply", kDirectory});
    EXPECT_EQ(outcome.exit_code, 0) << outcome;
    return outcome;
  }

  // CNI_ARGS as Nomad sends them.
  [[nodiscard]] static std::string LabelsOf(const std::string& nomad_namespace,
                                            const std::string& job) {
    return Format(
        "IgnoreUnknown=true;NOMAD_NAMESPACE={};NOMAD_JOB_ID={};NOMAD_GROUP_NAME=main;"
        "NOMAD_ALLOC_ID={}-{}",
        nomad_namespace,
        job,
        job,
        nomad_namespace);
  }
  // An allocation, by its job's name as its container's ID; it serves `job` on TCP and UDP 80.
  Node& Start(const std::string& nomad_namespace,
              const std::string& job,
              const json& config = DualStack()) {
    Node& node = AddContainer(Cat(nomad_namespace, '-', job));
    results_[node.name()] = Attach(config, As(node.name(), node, LabelsOf(nomad_namespace, job)));
    Serve(node, Protocol::kTcp, {"::"}, 80, job);
    Serve(node, Protocol::kUdp, {"::"}, 80, job);
    return node;
  }
  // A verb of one of the five names.
  // NOLINTNEXTLINE(modernize-use-nodiscard): most callers ignore the output
  Outcome MustRunAs(const std::string& name,
                    const std::string& verb,
                    const json& config,
                    const Variables& variables) {
    Outcome outcome = RunPlugin(verb, config.dump(), variables, name);
    EXPECT_EQ(outcome.exit_code, 0) << name << ' ' << outcome;
    return outcome;
  }
  [[nodiscard]] std::string AddressOfNode(const Node& node, int family = 4) const {
    return AddressOf(results_.at(node.name()), family);
  }

  // policy test, of what is in force if `options` name no directory.
  [[nodiscard]] Outcome Test(const std::string& from,
                             const std::string& to,
                             const std::string& options = "-port tcp/80") {
    return RunLine(Format("policy test -from {} -to {} {}", from, to, options));
  }

  // The table without the flows in its sets, which say when they go.
  [[nodiscard]] std::string ListWithoutFlows() {
    static const std::regex kFlows(R"((_flows[46] \{[^}]*?)\n\t\telements = \{[^}]*\})");
    return std::regex_replace(ListTable(), kFlows, "$1");
  }

  // Whether a new connection from `from` reaches port 80 of an address.
  [[nodiscard]] static bool IsAnswered(const Node& from, Protocol protocol, const std::string& to) {
    const auto patience = std::chrono::milliseconds(700);
    return Ask(from, {.protocol = protocol, .to = to, .port = 80, .patience = patience})
        .has_value();
  }
  // Whether a new connection from `from` reaches port 80 of `to`, by each family and protocol: they
  // have to agree.
  [[nodiscard]] bool Reaches(const Node& from, const Node& to) {
    std::set<bool> answers;
    for (const int family : {4, 6}) {
      for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
        answers.insert(IsAnswered(from, protocol, AddressOfNode(to, family)));
      }
    }
    EXPECT_EQ(answers.size(), 1U) << "families and protocols differ from " << from.name() << " to "
                                  << to.name();
    return *answers.rbegin();
  }

  std::map<std::string, json> results_;
};

// Closed but for its own namespace.
inline const json kNamespaces = {{"name", "namespaces"},
                                 {"to", {{"namespace", "*"}}},
                                 {"allow", {{{"from", {"same-namespace"}}}}}};
// `policy` in audit: it notes what it would refuse, and lets it pass.
inline json Audited(json policy = kNamespaces) {
  policy["mode"] = "audit";
  return policy;
}
// kNamespaces for these ports alone.
inline const json kNamespacesByPort = [] {
  json policy = kNamespaces;
  policy["allow"][0]["ports"] = {"tcp/1-1000"};
  return policy;
}();

// The bridge of a network "web", by the reference's name.
inline const json kWebBridge = {
    {"cniVersion", "1.0.0"},
    {"name", "web"},
    {"type", "bridge"},
    {"bridge", "web0"},
    {"isGateway", true},
    {"isDefaultGateway", true},
    {"ipam",
     {{"type", "host-local"},
      {"ranges", {{{{"subnet", "10.88.0.0/24"}}}, {{{"subnet", "fd00:88::/64"}}}}}}}};

// What the machine does with packets that pass a bridge, and with those that it forwards.
struct Ground : Named {
  const char* bridge_nf_call;
  bool drops_forwarded = false;  // iptables' chains FORWARD, unless a rule lets it pass
};

class PolicyGround : public PolicyWorld, public ::testing::WithParamInterface<Ground> {
 protected:
  PolicyGround() {
    SetBridgeNf(GetParam().bridge_nf_call);
    if (GetParam().drops_forwarded) {
      DropForwarded();
    }
  }
};

}  // namespace nomad_bridge::test
