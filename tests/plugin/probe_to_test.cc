// nomad-bridge inspect -to: why an allocation does not reach a service of the node, another
// allocation, or a machine beyond the node. Each case breaks one thing, which the allocation's own
// connection shows, and pastes what inspect prints.
#include "tests/plugin/policy_world.h"

namespace nomad_bridge::test {
namespace {

class InspectTo : public PolicyWorld {
 protected:
  void SetUp() override {
    host().Must(Words(Cat("ip route replace default via ", kOutsideIp4, " dev uplink")));
    address_ = AddressOf(
        Attach(DualStack(), As(kAllocation, container(), NomadArgs("billing", kAllocation))));
    server_ = AddressOf(Attach(DualStack(), As("server", other_)));
    Serve(host(), Protocol::kTcp, {"0.0.0.0"}, 4646, "node");
    Serve(other_, Protocol::kTcp, {"::"}, 80, "other");
    Serve(outside(), Protocol::kTcp, {"0.0.0.0"}, 443, "world");
  }

  [[nodiscard]] bool Reaches(const std::string& to, std::uint16_t port) {
    return test::Ask(container(),
                     {.to = to, .port = port, .patience = std::chrono::milliseconds(700)})
        .has_value();
  }
  [[nodiscard]] json Diagnosis(const std::string& to) {
    return At(RunLine(Cat("inspect billing -json -to ", to)).json, "/attachments/0/diagnosis");
  }
  // It does not get there, and inspect says why; the fix heals.
  void ExpectHealed(const std::string& to, std::uint16_t port, const std::string& says) {
    EXPECT_FALSE(Reaches(to, port));
    const json said = Diagnosis(Cat(to, ":", port));
    ASSERT_FALSE(said.at("causes").empty()) << said;
    EXPECT_THAT(At(said, "/causes/0/what").get<std::string>(), HasSubstr(says));
    const std::string fix = At(said, "/causes/0/fix");
    ASSERT_NE(fix, "") << said;
    host().Shell(fix);
    EXPECT_TRUE(Reaches(to, port)) << fix;
    EXPECT_EQ(Diagnosis(Cat(to, ":", port)).at("cause"), nullptr);
  }
  void ExpectAdvice(const std::string& to,
                    std::uint16_t port,
                    const std::string& says,
                    const std::string& advice) {
    EXPECT_FALSE(Reaches(to, port));
    const json said = Diagnosis(Cat(to, ":", port));
    ASSERT_FALSE(said.at("causes").empty()) << said;
    EXPECT_THAT(At(said, "/causes/0/what").get<std::string>(), HasSubstr(says));
    EXPECT_THAT(At(said, "/causes/0/advice").get<std::string>(), HasSubstr(advice));
  }

  // The stations of a way that is passed to its end.
  [[nodiscard]] static std::string StationsOf(const json& diagnosis) {
    std::string names;
    for (const json& station : At(diagnosis, "/ways/0/stations")) {
      EXPECT_EQ(station.at("state"), "passed") << diagnosis.at("ways");
      names += Cat(names.empty() ? "" : " ", station.at("name").get<std::string>());
    }
    return names;
  }

  Node& other_ = AddContainer("other");
  std::string address_;
  std::string server_;
  const std::string gateway_ = "172.26.64.1";
};

TEST_F(InspectTo, FindsNothingOnAWorkingWay) {
  for (const auto& [to, port, way] :
       {std::tuple{gateway_, std::uint16_t{4646}, "client prerouting route input service answer"},
        std::tuple{std::string(kHostIp4),
                   std::uint16_t{4646},
                   "client prerouting route input service answer"},
        std::tuple{server_, std::uint16_t{80}, "client nomad container service answer"},
        std::tuple{std::string(kOutsideIp4),
                   std::uint16_t{443},
                   "client prerouting route forward uplink"}}) {
    ASSERT_TRUE(Reaches(to, port)) << to;
    const json said = Diagnosis(Cat(to, ":", port));
    EXPECT_EQ(said.at("causes"), json::array()) << said;
    EXPECT_EQ(StationsOf(said), way);
  }
}

TEST_F(InspectTo, TakesTheNameOfAnAllocation) {
  EXPECT_THAT(RunLine("inspect billing -to server:80"),
              Exits(0, Out(HasSubstr(Cat("Way          tcp ", server_, ":80  client")))));
  // Else it is one of DNS: probe_names_test.cc.
  EXPECT_THAT(RunLine("inspect billing -to nobody:80"),
              Exits(1, Out(HasSubstr("'nobody' has no address: name server"))));
  for (const char* const wrong :
       {"10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:70000", ":80x"}) {
    EXPECT_THAT(RunLine(Cat("inspect billing -to ", wrong)),
                Exits(2, Err(HasSubstr("is no target; allowed: ADDRESS:PORT"))))
        << wrong;
  }
}

// No set of our table has its address.
TEST_F(InspectTo, ReachesAnAllocationOfAListWithoutFirewall) {
  Node& plain = AddContainer("plain");
  const json config = {{"cniVersion", "1.0.0"},
                       {"name", "plain"},
                       {"type", "bridge"},
                       {"bridge", "plain"},
                       {"isGateway", true},
                       {"ipam",
                        {{"type", "host-local"},
                         {"ranges", {{{{"subnet", "10.9.0.0/24"}}}, {{{"subnet", "fd00:9::/64"}}}}},
                         {"routes", {{{"dst", "0.0.0.0/0"}}, {{"dst", "::/0"}}}}}}};
  const Outcome added = RunPlugin("ADD", config.dump(), As("plain", plain), "bridge");
  ASSERT_EQ(added.exit_code, 0) << added;
  Serve(plain, Protocol::kTcp, {"::"}, 80, "plain");
  for (const int family : {4, 6}) {
    const std::string address = AddressOf(added.json, family);
    ASSERT_TRUE(Soon([&] { return TcpText(container(), address, 80) == "plain"; }));
    EXPECT_EQ(StationsOf(Diagnosis(Cat(family == 4 ? address : Cat('[', address, ']'), ":80"))),
              "client prerouting route forward plain container service answer");
  }
}

TEST_F(InspectTo, NamesTheInputPolicyOfTheNode) {
  host().Shell("iptables -P INPUT DROP");
  ExpectHealed(gateway_, 4646, "chain INPUT of table ip filter (policy drop)");
}

TEST_F(InspectTo, NamesAnInputRuleOfTheNode) {
  host().Shell("iptables -A INPUT -p tcp --dport 4646 -j DROP");
  ExpectHealed(kHostIp4, 4646, "chain INPUT of table ip filter (rule with handle");
}

// As ufw makes them: what iptables is told is gone with its next reload.
TEST_F(InspectTo, SuggestsACommandOfUfw) {
  host().Shell(
      "iptables -P INPUT DROP; iptables -N ufw-user-input; iptables -A INPUT -j ufw-user-input");
  ExpectAdvice(gateway_, 4646, "chain INPUT of table ip filter (policy drop)", "");
  EXPECT_EQ(At(Diagnosis(Cat(gateway_, ":4646")), "/causes/0/fix"),
            "ufw allow proto tcp from 172.26.64.0/20 to any port 4646");
}

TEST_F(InspectTo, NamesAMissingService) {
  ExpectAdvice(gateway_, 4647, "on the node: no listener on tcp/4647", "ss -ltnp");
}

// The kernel accepts connections in its place, so that they seem answered.
TEST_F(InspectTo, NamesAStoppedService) {
  other_.Shell("kill -STOP $(ss -H -ltnp 'sport = :80' | sed 's/.*pid=\\([0-9]*\\).*/\\1/')");
  ExpectHealed(server_, 80, ", which listens on tcp/80, is stopped");
}

TEST_F(InspectTo, NamesARuleBetweenAllocations) {
  host().Nft(
      "table bridge mine { chain f { type filter hook forward priority 0; tcp dport 80 "
      "drop; }; }");
  ExpectHealed(server_, 80, "chain f of table bridge mine");
}

TEST_F(InspectTo, NamesARuleOfTheOtherAllocation) {
  other_.Nft(
      "table inet mine { chain i { type filter hook input priority 0; tcp dport 80 drop; }; "
      "}");
  ExpectHealed(server_, 80, "in the container, chain i of table inet mine");
}

TEST_F(InspectTo, NamesARuleOfItsOwnContainer) {
  container().Nft(
      "table inet mine { chain o { type filter hook output priority 0; tcp dport 443 drop; }; }");
  ExpectHealed(kOutsideIp4, 443, "in the container, chain o of table inet mine");
}

TEST_F(InspectTo, NamesARuleTowardsTheWorld) {
  host().Nft("table inet mine { chain f { type filter hook forward priority 10; policy drop; }; }");
  ExpectHealed(kOutsideIp4, 443, "chain f of table inet mine (policy drop)");
}

TEST_F(InspectTo, NamesARuleThatLeadsTheNodesAnswersElsewhere) {
  ASSERT_TRUE(Reaches(kHostIp4, 4646));
  host().Shell(Format("ip rule add from {} lookup 100; ip route add default via {} table 100",
                      kHostIp4,
                      kOutsideIp4));
  ExpectHealed(kHostIp4, 4646, "'from 198.51.100.1 lookup 100' comes first");
}

TEST_F(InspectTo, ShowsTheUplinkThatARuleChooses) {
  host().Shell(
      "ip link add other type veth peer name back netns outside; ip -n outside link set back up; "
      "ip link set other up; ip address add 10.9.0.1/24 dev other; ip -n outside address add "
      "10.9.0.2/24 dev back; ip rule add from 172.26.64.0/20 lookup 100; ip route add default via "
      "10.9.0.2 table 100");
  EXPECT_EQ(At(Diagnosis("203.0.113.9:443"), "/ways/0/stations").back().at("name"), "other");
}

TEST_F(InspectTo, NamesABlackholeOnTheNode) {
  host().Must(Words("ip route add blackhole 203.0.113.0/24"));
  ExpectAdvice("203.0.113.9", 443, "a route there is a blackhole", "ip rule show");
}

TEST_F(InspectTo, NamesAMissingRouteInTheContainer) {
  container().Must(Words("ip route del default"));
  EXPECT_FALSE(Reaches(kOutsideIp4, 443));
  const json said = Diagnosis(Cat(kOutsideIp4, ":443"));
  EXPECT_THAT(said.at("cause").get<std::string>(), HasSubstr("there is no route"));
  EXPECT_EQ(At(said, "/ways/0/stations/0/state"), "failed");
}

TEST_F(InspectTo, NamesAPolicy) {
  WritePolicies({{{"name", "closed"},
                  {"from", {{"namespace", "*"}, {"job", "billing"}}},
                  {"allow", json::array()}}});
  ASSERT_THAT(RunLine(Cat("policy apply ", kDirectory)), Exits(0));
  ExpectAdvice(server_, 80, "policy refuses what", "policy closed");
  ExpectAdvice(kOutsideIp4, 443, "policy refuses what", "policy closed");
}

// As any other client does.
TEST_F(InspectTo, ReachesAPublishedPortOfTheNode) {
  Node& published = AddContainer("published");
  Attach(Publish({Port(8085, 85)}, DualStack()), As("published", published));
  Serve(published, Protocol::kTcp, {"0.0.0.0"}, 85, "published");
  ASSERT_TRUE(Reaches(kHostIp4, 8085));
  const json said = Diagnosis(Cat(kHostIp4, ":8085"));
  EXPECT_EQ(said.at("causes"), json::array()) << said;
  EXPECT_EQ(At(said, "/ways/0/stations/4/name"), "nomad");
}

// What the world answers is not judged, and not said to be well.
TEST_F(InspectTo, DoesNotJudgeAnswersFromTheWorld) {
  const json said = Diagnosis("192.0.2.1:443");
  EXPECT_EQ(At(said, "/ways/0/stations").back().at("name"), "uplink");
}

// It publishes nothing.
TEST_F(InspectTo, TellsWhetherAGivenClientReachesTheAllocation) {
  Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 7000, "own");
  const std::string client = server_;
  ASSERT_TRUE(test::Ask(other_, {.to = address_, .port = 7000}).has_value());
  EXPECT_THAT(RunLine(Cat("inspect billing -from ", client)),
              Exits(0, Out(HasSubstr("tcp 7000  client"))));
  host().Nft(
      "table bridge mine { chain f { type filter hook forward priority 0; tcp dport 7000 "
      "drop; }; }");
  EXPECT_THAT(RunLine(Cat("inspect billing -from ", client, " -to ", address_, ":7000")),
              Exits(1, Out(HasSubstr("chain f of table bridge mine"))));
  EXPECT_THAT(RunLine(Cat("inspect billing -from ", client, " -to ", address_, ":81")),
              Exits(1, Out(HasSubstr("no listener on tcp/81      <- why there is no answer"))));
  EXPECT_THAT(RunLine(Cat("inspect billing -from ", client, " -to ", gateway_, ":7000")),
              Exits(2, Err(HasSubstr("takes an address of the allocation itself"))));
}

}  // namespace
}  // namespace nomad_bridge::test
