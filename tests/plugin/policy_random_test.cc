// Random policies, allocations of several kinds of lists, and random connections: `policy test`
// says what the kernel does.
#include <memory>
#include <random>

#include "tests/plugin/policy_world.h"

namespace nomad_bridge::test {
namespace {

class PolicyRandom : public PolicyWorld, public ::testing::WithParamInterface<int> {
 protected:
  struct Allocation {
    Node* node;
    std::vector<std::string> addresses;  // the last one is not ours, if it has added one
    std::string broadcast;
    std::unique_ptr<Server> udp;
  };

  PolicyRandom() { SetBridgeNf(OneOf(2) ? "0" : "1"); }

  bool OneOf(unsigned sides) { return random_() % sides == 0; }
  template <typename T>
  const T& Any(const std::vector<T>& values) {
    return values[random_() % values.size()];
  }
  std::string Word(std::initializer_list<const char*> words) {
    return *(words.begin() + random_() % words.size());
  }

  // ---- allocations

  void StartAny() {
    const std::string name = Cat("a", allocations_.size());
    Node& node = AddContainer(name);
    const Variables variables =
        As(name, node, LabelsOf(Word({"prod", "dev", "infra"}), Word({"api", "db", "lb"})));
    const bool is_web = OneOf(2);
    json result;
    if (is_web) {
      result = json::parse(RunPlugin("ADD", kWebBridge.dump(), variables, "bridge").out);
      if (OneOf(2)) {
        json chained = {{"cniVersion", "1.0.0"}, {"name", "web"}, {"prevResult", result}};
        chained["type"] = "firewall";
        EXPECT_THAT(RunPlugin("ADD", chained.dump(), variables, "firewall"), Exits(0));
      }
    } else {
      result = Attach(DualStack({{"inbound", "any"}, {"sourceCheck", false}}), variables);
    }
    Allocation& made = allocations_.emplace_back();
    made.node = &node;
    made.addresses = {AddressOf(result), AddressOf(result, 6)};
    made.broadcast = is_web ? "10.88.0.255" : "172.26.79.255";
    if (OneOf(3)) {
      made.addresses.push_back(Cat(is_web ? "10.88.0." : "172.26.79.", 100 + allocations_.size()));
      node.Must({"ip", "address", "add", Cat(made.addresses.back(), "/32"), "dev", "eth0"});
    }
    Serve(node, Protocol::kTcp, {"::"}, 80, name);
    made.udp = std::make_unique<Server>(Server::Start(node, Protocol::kUdp, "::", 80, name));
  }

  // ---- policies

  json AnySelector() {
    json selector = {{"namespace", Word({"prod", "dev", "*", "p*", "infra"})}};
    if (OneOf(2)) {
      selector["job"] = Word({"api", "db", "l?"});
    }
    return selector;
  }
  json AnyEntry(const char* end) {
    json entry = {{end, json::array()}};
    do {
      const std::string word = Word({"", "", "same-namespace", "outside", "node", "any", "list"});
      entry[end].push_back(word.empty() ? AnySelector() : json(word));
    } while (OneOf(3));
    if (OneOf(3)) {
      entry["ports"] = {Word({"tcp/80", "udp/80", "tcp", "udp/1-100"})};
    }
    return entry;
  }
  json AnyPolicy(std::size_t number) {
    const bool is_to = !OneOf(4);
    const char* const end = is_to ? "from" : "to";
    json policy = {{"name", Cat("p", number)},
                   {is_to ? "to" : "from", AnySelector()},
                   {"mode", OneOf(5) ? "audit" : "enforce"},
                   {"allow", json::array()}};
    while (!OneOf(3)) {
      policy["allow"].push_back(AnyEntry(end));
    }
    if (is_to && OneOf(5)) {
      policy["only"] = true;
    }
    if (!is_to && OneOf(2)) {
      policy["deny"] = {AnyEntry(end)};
    }
    return policy;
  }
  void ApplyAny(std::size_t elsewhere) {
    std::vector<json> policies;
    has_egress_ = false;
    while (policies.empty() || !OneOf(4)) {
      policies.push_back(AnyPolicy(policies.size()));
      has_egress_ = has_egress_ || policies.back().contains("from");
    }
    for (std::size_t i = 0; i < elsewhere; ++i) {
      policies.push_back({{"name", Cat("elsewhere", i)},
                          {"to", {{"namespace", "elsewhere"}, {"job", Cat("job", i)}}},
                          {"allow", {{{"from", {{{"namespace", Cat("x", i)}}, "list"}}}}}});
    }
    Apply(policies,
          {{"list", {"172.26.64.2/32", "10.88.0.3/32", "fd00:26::/120", "198.51.100.0/24"}}});
  }

  // ---- connections

  [[nodiscard]] bool IsAllowed(const std::string& from,
                               const std::string& to,
                               const std::string& port) {
    const Outcome says = Test(from, to, Cat("-port ", port));
    EXPECT_LE(says.exit_code, 1) << says;
    return says.exit_code == 0;
  }
  void ExpectAgreement() {
    const Allocation& from = Any(allocations_);
    const Allocation& to = Any(allocations_);
    if (&from == &to) {
      return;
    }
    const std::size_t family = random_() % 2;
    const Protocol protocol = OneOf(2) ? Protocol::kTcp : Protocol::kUdp;
    // Nobody knows whose an added address is, so it counts as outside.
    const bool is_added = family == 0 && from.addresses.size() > 2 && OneOf(2);
    const std::string& source = is_added ? from.addresses.back() : from.addresses[family];
    const std::string& target = to.addresses[family];
    const bool reaches = Ask(*from.node,
                             {.protocol = protocol,
                              .to = target,
                              .port = 80,
                              .from = source,
                              .patience = std::chrono::milliseconds(700)})
                             .has_value();
    const std::string port = protocol == Protocol::kTcp ? "tcp/80" : "udp/80";
    EXPECT_EQ(reaches, IsAllowed(source, target, port))
        << source << " to " << target << ' ' << port;
  }
  // A broadcast reaches those on the same bridge that the sender may reach by UDP, unless policies
  // restrict what it sends: they judge a broadcast as a packet to the outside.
  void ExpectAgreementOnBroadcast() {
    const Allocation& from = Any(allocations_);
    for (const Allocation& to : allocations_) {
      static_cast<void>(to.udp->Heard());
    }
    from.node->Must({"python3",
                     "-c",
                     "import socket, sys\n"
                     "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                     "s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\n"
                     "s.bind((sys.argv[1], 0))\n"
                     "s.sendto(b'all', (sys.argv[2], 80))\n",
                     from.addresses[0],
                     from.broadcast});
    for (const Allocation& to : allocations_) {
      if (&to == &from || to.broadcast != from.broadcast) {
        continue;
      }
      // The node reaches all of them: its datagram comes after the broadcast.
      EXPECT_TRUE(Ask(host(), {.protocol = Protocol::kUdp, .to = to.addresses[0], .port = 80}));
      const bool is_heard = to.udp->Heard().size() == 2;
      EXPECT_EQ(is_heard, IsAllowed(from.addresses[0], to.addresses[0], "udp/80"))
          << "broadcast of " << from.addresses[0] << " at " << to.addresses[0];
    }
  }

  void MarkAllConnections() {
    host().Must({"nft", "-f", "-"}, R"(
table inet operator {
  chain pre {
    type filter hook prerouting priority mangle;
    ct mark set 2
    meta mark set 7
  }
})");
  }

  std::mt19937 random_{static_cast<std::uint32_t>(GetParam())};
  std::vector<Allocation> allocations_;
  bool has_egress_ = false;  // some policy has `from`
};

TEST_P(PolicyRandom, TestAgreesWithTheKernel) {
  if (OneOf(2)) {
    MarkAllConnections();
  }
  while (allocations_.size() < 6) {
    StartAny();
  }
  for (int round = 0; round < 3; ++round) {
    ApplyAny(GetParam() == 1 && round == 0 ? 3000 : 0);
    for (int i = 0; i < 8; ++i) {
      ExpectAgreement();
    }
    if (!has_egress_) {
      ExpectAgreementOnBroadcast();
    }
  }
  EXPECT_EQ(RunLine("reconcile -dry-run").exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Seed, PolicyRandom, ::testing::Range(1, 9));

}  // namespace
}  // namespace nomad_bridge::test
