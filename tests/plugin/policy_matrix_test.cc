// policy test agrees with what the kernel does: everybody asks everybody, by every family and
// protocol, to addresses, published ports, the node and outside.
#include "tests/plugin/policy_world.h"

namespace nomad_bridge::test {
namespace {

struct Source {
  std::string word;  // for `policy test`; outside goes by its address
  const Node* node;
};

struct Target {
  std::string address;
  std::uint16_t port;
};

class PolicyMatrix : public PolicyWorld {
 protected:
  void Start() {
    const json published = Publish({Port(8080, 80), Port(8080, 80, "udp")}, DualStack());
    Node& api = PolicyWorld::Start("prod", "api", published);
    Node& etl = PolicyWorld::Start("dev", "etl");
    Node& lb = PolicyWorld::Start("prod", "lb");
    Node& scraper = PolicyWorld::Start("infra", "prometheus");
    Node& plain = AddContainer("plain");
    results_[plain.name()] = Attach(DualStack(), As("plain", plain));
    for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
      Serve(plain, protocol, {"::"}, 80, "plain");
      Serve(host(), protocol, {"::"}, 9000, "node");
      Serve(outside(), protocol, {"::"}, 80, "web");
      Serve(outside(), protocol, {"::"}, 53, "dns");
    }
    sources_ = {{"api", &api},  // a job
                {ReadRecord(etl.name()).at("host_veth"), &etl},
                {lb.name(), &lb},                       // an ID
                {"ns=infra,job=prometheus", &scraper},  // labels
                {"plain", &plain},
                {"node", &host()},
                {"", &outside()}};
    targets_ = {{kHostIp4, 8080},
                {kHostIp6, 8080},
                {kBridgeIp4, 9000},
                {kBridgeIp6, 9000},
                {kOutsideIp4, 80},
                {kOutsideIp6, 80},
                {kOutsideIp4, 53},
                {kOutsideIp6, 53}};
    for (const Node* const node : {&api, &etl, &plain}) {
      for (const int family : {4, 6}) {
        targets_.push_back({AddressOfNode(*node, family), 80});
      }
    }
  }

  // What the node and outside send each other passes no allocation's rules; what an allocation
  // sends to itself does not leave it.
  [[nodiscard]] bool IsJudged(const Source& from, const Target& to) {
    const bool is_alien = from.node == &host() || from.node == &outside();
    const bool is_at_home = !is_alien && (AddressOfNode(*from.node) == to.address ||
                                          AddressOfNode(*from.node, 6) == to.address);
    return !is_at_home && (!is_alien || to.port == 8080 || to.port == 80) &&
           !(is_alien && (to.address == kOutsideIp4 || to.address == kOutsideIp6)) &&
           !(from.node == &outside() && to.port == 80);  // no route from there
  }

  void ExpectAgreement(int at_least) {
    std::map<bool, int> count;
    for (const Source& from : sources_) {
      for (const Target& to : targets_) {
        for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
          if (IsJudged(from, to)) {
            ++count[ExpectAgreementOn(from, to, protocol)];
          }
        }
      }
    }
    EXPECT_GE(count[true], at_least);
    EXPECT_GE(count[false], at_least);
  }

  // Returns whether the connection reaches the target.
  bool ExpectAgreementOn(const Source& from, const Target& to, Protocol protocol) {
    const bool is_ipv6 = to.address.find(':') != std::string::npos;
    const std::string outside_ip = is_ipv6 ? kOutsideIp6 : kOutsideIp4;
    const std::string word = from.node == &outside() ? outside_ip : from.word;
    const std::string port = Cat(protocol == Protocol::kTcp ? "tcp/" : "udp/", to.port);
    const Outcome says = Run({"policy", "test", "-from", word, "-to", to.address, "-port", port});
    const bool reaches = Ask(*from.node,
                             {.protocol = protocol,
                              .to = to.address,
                              .port = to.port,
                              .patience = std::chrono::milliseconds(700)})
                             .has_value();
    EXPECT_EQ(says.exit_code == 0, reaches)
        << word << " to " << to.address << ' ' << port << ": " << says;
    return reaches;
  }

  std::vector<Source> sources_;
  std::vector<Target> targets_;
};

TEST_F(PolicyMatrix, TestAgreesWithTheKernelForIngress) {
  Start();
  json namespaces = kNamespaces;
  namespaces["allow"].push_back(
      {{"from", {{{"namespace", "infra"}, {"job", "prometheus"}}}}, {"ports", {"tcp/80"}}});
  namespaces["allow"].push_back({{"from", {"outside"}}, {"ports", {"udp/80"}}});
  Apply({namespaces,
         {{"name", "etl"},
          {"to", {{"namespace", "dev"}}},
          {"mode", "audit"},
          {"allow", json::array()}}});
  ExpectAgreement(20);
}

TEST_F(PolicyMatrix, TestAgreesWithTheKernelForEgress) {
  Start();
  Apply({{{"name", "api"},
          {"to", {{"namespace", "prod"}, {"job", "api"}}},
          {"only", true},
          {"allow", {{{"from", {{{"namespace", "prod"}, {"job", "lb"}}, "office"}}}}}},
         {{"name", "egress"},
          {"from", {{"namespace", "dev"}}},
          {"allow", {{{"to", {"node"}}, {"ports", {"udp/9000"}}}, {{"to", {"outside"}}}}},
          {"deny", {{{"to", {"office"}}, {"ports", {"tcp/80"}}}}}},
         {{"name", "infra"},
          {"from", {{"namespace", "infra"}}},
          {"allow", {{{"to", {"any"}}, {"ports", {"tcp/80"}}}}}}},
        {{"office", {Cat(kOutsideIp4, "/32"), Cat(kOutsideIp6, "/128")}}});
  ExpectAgreement(20);
}

// A list may have some of the node's addresses.
TEST_F(PolicyMatrix, TestJudgesEachAddressOfTheNode) {
  Start();
  Apply({{{"name", "egress"},
          {"from", {{"namespace", "dev"}}},
          {"deny", {{{"to", {"node-list"}}, {"ports", {"tcp/9000"}}}}}}},
        {{"node-list", {Cat(kBridgeIp4, "/32"), Cat(kBridgeIp6, "/128")}}});
  const Node& etl = *sources_[1].node;
  for (const auto& [address, is_reached] : {std::pair(kBridgeIp4, false),
                                            std::pair(kBridgeIp6, false),
                                            std::pair(kHostIp4, true),
                                            std::pair(kHostIp6, true)}) {
    EXPECT_EQ(Ask(etl, {.to = address, .port = 9000}).has_value(), is_reached) << address;
  }
  EXPECT_THAT(RunLine("policy test -from etl -to node -port tcp/9000"),
              Exits(1,
                    Out(AllOf(HasSubstr(Cat(kBridgeIp4, ": refused by egress#deny0")),
                              HasSubstr(Cat(kBridgeIp6, ": refused by egress#deny0")),
                              HasSubstr(Cat(kHostIp4, ": allowed"))))));
  EXPECT_THAT(RunLine("policy test -from etl -to node -port tcp/9001"),
              Exits(0, Out("allowed: no policy refuses it\n")));
  host().Must({"chmod", "-R", "a+rX", kDirectory});
  EXPECT_THAT(Execute(LineWithoutRoot({"policy",
                                       "test",
                                       "-from",
                                       "ns=dev",
                                       "-to",
                                       "node",
                                       "-port",
                                       "tcp/9000",
                                       "-dir",
                                       kDirectory})),
              Exits(2, Err(HasSubstr("the node's address"))));
}

TEST_F(PolicyMatrix, TestAcceptsEveryNameOfAnAllocation) {
  Start();
  Apply({kNamespaces});
  const std::string veth = ReadRecord("prod-api").at("host_veth");
  for (const std::string& to : {std::string("api"),
                                std::string("prod-api"),
                                veth,
                                AddressOfNode(*sources_[0].node),
                                std::string("ns=prod,job=api"),
                                std::string("group=main,job=ap?"),
                                std::string("job=api"),
                                std::string("8080"),
                                std::string("port=8080"),
                                std::string("node -port tcp/8080")}) {
    const std::string port = to.find(" -port") == to.npos ? " -port tcp/80" : "";
    EXPECT_THAT(RunLine(Cat("policy test -from etl -to ", to, port)),
                Exits(1, Out("refused by namespaces at the target, prod/api/main\n")));
  }
  EXPECT_THAT(RunLine("policy test -from lb -to 8080"),
              Exits(0, Out("allowed by namespaces#0 at the target, prod/api/main\n")));
  EXPECT_THAT(RunLine("policy test -from lb -to main -port tcp/80"),
              Exits(2, Out(""), Err(HasSubstr("may be any of these"))));
}

TEST_F(PolicyMatrix, TestUsesThePoliciesInForceUnlessADirectoryIsNamed) {
  Start();
  Apply({kNamespaces});
  WritePolicies({});
  EXPECT_THAT(RunLine("policy test -from etl -to 8080"),
              Exits(1, _, Err(HasSubstr("differ from the policies in force; this tests"))));
  EXPECT_THAT(RunLine(Cat("policy test -from etl -to 8080 -dir ", kDirectory)), Exits(0));
}

}  // namespace
}  // namespace nomad_bridge::test
