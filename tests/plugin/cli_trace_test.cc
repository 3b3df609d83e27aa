// nomad-bridge inspect PORT -trace: what cannot be told by looking.
#include <chrono>
#include <regex>

#include "tests/plugin/cli_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class Traced : public CliWorld {
 protected:
  void SetUp() override {
    const json result = Attach(Publish({Port(8080, 80)}));
    veth_ = HostVethOf(result);
    address_ = AddressOf(result);
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "hello");
    host().Nft(Cat("table ip mine { chain f { type filter hook forward priority 5; ip daddr ",
                   address_,
                   " meta length 60-64 drop; }; }"));
  }
  [[nodiscard]] bool HasTable() {
    return host().Must({"nft", "list", "tables"}).find("nomad-bridge-probe") != std::string::npos;
  }
  // Without a probe, which has such tables, too.
  [[nodiscard]] Process StartTrace(const std::string& from = kOutsideIp4) {
    Process inspect =
        Process::Start(Line({"inspect", "8080", "-no-probe", "-trace", "-from", from}));
    EXPECT_TRUE(Soon([&] { return HasTable(); }));
    return inspect;
  }

  // Once `damage` is done on the node, in the place of the rule of the others.
  void Do(const std::string& damage) { host().Shell(Cat("nft flush table ip mine; ", damage)); }
  // Of a trace while a client asks, which is answered or not.
  [[nodiscard]] Outcome TraceOfClient(bool is_answered) {
    Process inspect = StartTrace();
    const Call call = {.to = kHostIp4, .port = 8080, .patience = std::chrono::milliseconds(700)};
    EXPECT_EQ(Ask(outside(), call).has_value(), is_answered);
    return inspect.Wait();
  }

  std::string veth_;
  std::string address_;
};

TEST_F(Traced, NamesTheRuleThatEndedAClientsConnection) {
  ASSERT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
  EXPECT_THAT(Output("inspect 8080"), Not(HasSubstr("fix:"))) << "of that length only";
  Process inspect = StartTrace();
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
  EXPECT_THAT(
      inspect.Wait(),
      Exits(1,
            Out(AllOf(HasSubstr("\nTrace        inet nomad-bridge, chain localhost_guard, "
                                "policy: accept\n"),
                      HasSubstr(": goto hostports\n"),
                      EndsWith("ip mine, chain f, rule with handle 2: drop\n"))),
            Err(HasSubstr("waiting at most 10 seconds for what 198.51.100.2 sends to port 8080"))));
  EXPECT_FALSE(HasTable());
}

TEST_F(Traced, NeedsRootAndAClient) {
  EXPECT_THAT(RunLine("inspect 8080 -trace"), Exits(2, Err(HasSubstr("-from ADDRESS"))));
  EXPECT_THAT(Execute(LineWithoutRoot({"inspect", veth_, "-trace", "-from", kOutsideIp4})),
              Exits(2, Err(HasSubstr("inspect -trace needs root"))));
}

// Its address as a client is one of its own.
TEST_F(Traced, FollowsTheNodeItself) {
  Do("true");
  Process inspect = StartTrace(kHostIp4);
  EXPECT_EQ(TcpText(host(), kHostIp4, 8080), "hello");
  EXPECT_THAT(inspect.Wait(),
              Exits(0, Out(HasSubstr("Trace        inet nomad-bridge, chain output, rule "))));
}

TEST_F(Traced, IsOverSoonAfterTheClientsConnection) {
  host().Must(Words("nft flush table ip mine"));
  const auto begin = std::chrono::steady_clock::now();
  Process inspect = StartTrace();
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_THAT(inspect.Wait(), Exits(0, Out(HasSubstr("\n             answer: "))));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
}

// A queue that no program reads.
TEST_F(Traced, FailsIfTheRequestDisappearsWithoutADrop) {
  Do("iptables -I FORWARD -p tcp --dport 80 -m length --length 60:64 -j NFQUEUE --queue-num 3");
  EXPECT_THAT(TraceOfClient(false), Exits(1, Out(HasSubstr("\n             it gets no further"))));
}

TEST_F(Traced, FailsIfTheAnswerDisappearsWithoutADrop) {
  Do("iptables -I FORWARD -p tcp --sport 80 -m length --length 60:64 -j NFQUEUE --queue-num 3");
  EXPECT_THAT(TraceOfClient(false),
              Exits(1, Out(HasSubstr("\n             answer: it gets no further"))));
}

TEST_F(Traced, FailsWithoutAnAnswer) {
  Do("true");
  container().Nft("table inet mine { chain c { type filter hook input priority 0; drop; }; }");
  EXPECT_THAT(TraceOfClient(false),
              Exits(1, Out(EndsWith(" nothing has come back from the container\n"))));
}

// As a service that is slow to take connections, or a client far away: it asks again and again, and
// is answered in the end.
class SlowHandshake : public Traced {
 protected:
  // Though `where` drops the first two of these packets.
  void ExpectAnsweredBehind(Node& where, const std::string& packets) {
    Do("true");
    Process inspect = StartTrace();
    where.Nft(Cat("table inet slow { chain c { type filter hook input priority 0; ",
                  packets,
                  " counter drop; }; }"));
    Process client = Process::Start(
        {.argv = {"timeout", "8", "bash", "-c", Cat("true <>/dev/tcp/", kHostIp4, "/8080")},
         .in_child = [&] { outside().Enter(); }});
    EXPECT_TRUE(Soon([&] {
      return std::regex_search(where.Must(Words("nft list table inet slow")),
                               std::regex("packets [2-9]"));
    }));
    where.Must(Words("nft delete table inet slow"));
    EXPECT_THAT(inspect.Wait(), Exits(0, Out(Not(HasSubstr(" seconds ")))));
    EXPECT_EQ(client.Wait().exit_code, 0);
  }
};

TEST_F(SlowHandshake, SucceedsIfTheServiceIsSlow) {
  ExpectAnsweredBehind(container(), "tcp flags syn");
}

TEST_F(SlowHandshake, SucceedsIfTheClientIsSlow) {
  ExpectAnsweredBehind(outside(), "tcp sport 8080");
}

TEST_F(Traced, SaysThatTheClientDoesNotConfirmTheAnswer) {
  Do("true");
  outside().Nft(
      "table inet deaf { chain c { type filter hook input priority 0; tcp sport 8080 "
      "drop; }; }");
  Process inspect = StartTrace();
  const Call call = {.to = kHostIp4, .port = 8080, .patience = std::chrono::milliseconds(3000)};
  EXPECT_EQ(Ask(outside(), call), std::nullopt);
  EXPECT_THAT(inspect.Wait(),
              Exits(1,
                    Out(EndsWith("answer: in 4 seconds the client has not confirmed it, and has "
                                 "asked again\n"))));
}

TEST_F(Traced, SaysThatThePortRefuses) {
  Do("true");
  container().Nft(
      "table inet mine { chain c { type filter hook input priority 0; tcp dport 80 "
      "reject with tcp reset; }; }");
  EXPECT_THAT(TraceOfClient(false), Exits(1, Out(EndsWith("answer: it refuses\n"))));
}

// What the container answers goes to the node then, as far as it knows.
TEST_F(Traced, SucceedsIfTheClientIsMasqueraded) {
  Do("iptables -t nat -A POSTROUTING -j MASQUERADE");
  EXPECT_THAT(TraceOfClient(true), Exits(0));
}

// The table is its process's own.
TEST_F(Traced, LeavesNothingWhenItIsKilled) {
  const Process inspect = StartTrace();
  ::kill(inspect.pid(), SIGKILL);
  EXPECT_TRUE(Soon([&] { return !HasTable(); }));
}

}  // namespace
}  // namespace nomad_bridge::test
