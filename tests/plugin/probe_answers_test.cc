// The last line of inspect: who gets an answer, and why others get none.
#include "tests/plugin/probe_world.h"

namespace nomad_bridge::test {
namespace {

class Result : public ProbeWorld {
 protected:
  // What the last line says.
  [[nodiscard]] std::string Last(const std::string& words) {
    const std::vector<std::string> lines = Lines(RunLine(Cat("inspect ", words)).out);
    const std::string last = lines.empty() ? "" : lines.back();
    EXPECT_THAT(last, StartsWith("Result       ")) << words;
    return last.substr(std::min<std::size_t>(last.size(), 13));
  }
  void AttachNeighbour() { Attach(DualStack(), As("9d01c7e4", neighbour_, NomadArgs("web", ""))); }

  Node& neighbour_ = AddContainer("neighbour");
};

TEST_F(Result, NamesAllThatGetAnAnswer) {
  EXPECT_EQ(Last("8080"), "answers outside and the node");
  AttachNeighbour();
  ASSERT_EQ(TcpText(neighbour_, kHostIp4, 8080), "hello");
  ASSERT_EQ(TcpText(host(), kHostIp4, 8080), "hello");
  EXPECT_EQ(Last("8080"), "answers outside, the node and neighbours");
  EXPECT_EQ(Last(kAllocation), "answers outside, the node and neighbours");
  const json answers = DiagnosisOf("8080").at("answers");
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(At(answers, "/1/from"), "the node");
  EXPECT_EQ(At(answers, "/1/address"), kHostIp4);
  EXPECT_EQ(At(answers, "/2/answered"), true);
}

TEST_F(Result, NamesTheNodeIfOnlyTheNodeGetsNone) {
  AttachNeighbour();
  host().Nft(
      "table inet mine { chain r { type filter hook output priority raw; tcp dport 8080 drop; }; "
      "}");
  ASSERT_EQ(TcpText(host(), kHostIp4, 8080), "");
  EXPECT_THAT(Last("8080"),
              AllOf(StartsWith("answers outside and neighbours, but not the node: "),
                    HasSubstr("chain r of table inet mine")));
}

TEST_F(Result, NamesTheNeighbourIfAPolicyRefusesIt) {
  AttachNeighbour();
  EnsureDirectory("/run/policy.d");
  const json closed = {
      {"name", "closed"}, {"from", {{"namespace", "*"}, {"job", "web"}}}, {"allow", json::array()}};
  ReplaceFile("/run/policy.d/closed.json", json{{"version", 1}, {"policies", {closed}}}.dump());
  ASSERT_THAT(RunLine("policy apply /run/policy.d"), Exits(0));
  ASSERT_EQ(TcpText(neighbour_, kHostIp4, 8080), "");
  EXPECT_THAT(Last("8080"),
              AllOf(StartsWith("answers outside and the node, but not its neighbour '9d01c7e4' "
                               "(web/api): "),
                    HasSubstr("rule closed")));
}

TEST_F(Result, SaysWhyTheOutsideGetsNone) {
  AttachNeighbour();
  host().Nft(
      "table inet mine { chain p { type filter hook prerouting priority raw; iif uplink tcp dport "
      "8080 drop; }; }");
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "");
  ASSERT_EQ(TcpText(neighbour_, kHostIp4, 8080), "hello");
  EXPECT_THAT(Last("8080"),
              AllOf(StartsWith("answers the node and neighbours, but not outside: "),
                    HasSubstr("chain p of table inet mine")));
}

TEST_F(Result, SaysWhyNobodyGetsOne) {
  AttachNeighbour();
  host().Must(Words("nft flush ruleset"));
  EXPECT_EQ(Last("8080"), "does not answer: table inet nomad-bridge is missing");
}

TEST_F(Result, KnowsADeadAllocation) {
  Node& doomed = AddContainer("doomed");
  Attach(Publish({Port(9090, 80)}), As("9d01c7e4", doomed));
  KillContainer(doomed);
  EXPECT_EQ(Last("9d01"), "does not answer: its namespace is gone");
}

TEST_F(Result, IsAboutTheClientOrTheTargetThatIsNamed) {
  EXPECT_EQ(Last(Cat("8080 -from ", kOutsideIp4)), Cat("answers ", kOutsideIp4));
  EXPECT_EQ(Last(Cat("billing -to ", kOutsideIp4, ":443")),
            Cat("what it sends to ", kOutsideIp4, ":443 leaves by 'uplink'"));
  Serve(host(), Protocol::kTcp, {"::"}, 4646, "nomad");
  EXPECT_EQ(Last(Cat("billing -to [", kHostIp6, "]:4646")), Cat("reaches [", kHostIp6, "]:4646"));
  EXPECT_THAT(Last(Cat("billing -to ", kHostIp4, ":4647")),
              StartsWith(Cat("does not reach ", kHostIp4, ":4647: ")));
  host().Must(Words("ip route add blackhole 203.0.113.0/24"));
  EXPECT_THAT(Last(Cat("8080 -from ", kFarIp4)),
              StartsWith(Cat("does not answer ", kFarIp4, ": ")));
}

TEST_F(Result, ClaimsNoAnswerOfWhatWasNotAsked) {
  AttachNeighbour();
  EXPECT_EQ(Last("web"),
            "nothing is wrong; it publishes no port: ask with -from ADDRESS or -to TARGET");
  EXPECT_EQ(Last("8080 -no-probe"), "nothing is wrong; no connection was tried");
}

// A port on 127.0.0.1 is the node's.
TEST_F(Result, KnowsAPortOfTheNodeAlone) {
  Attach(Publish({Port(8082, 80, "tcp", "127.0.0.1")}), As("own", neighbour_));
  Serve(neighbour_, Protocol::kTcp, {"0.0.0.0"}, 80, "own");
  ASSERT_EQ(TcpText(host(), "127.0.0.1", 8082), "own");
  EXPECT_EQ(Last("8082"), "answers the node");
}

TEST_F(Result, PromisesNoAnswerOfADatagram) {
  Attach(Publish({Port(5353, 53, "udp")}), As("dns", neighbour_));
  Serve(neighbour_, Protocol::kUdp, {"0.0.0.0"}, 53, "dns");
  EXPECT_EQ(Last("5353"), "gets datagrams from outside, the node and neighbours");
}

}  // namespace
}  // namespace nomad_bridge::test
