// nomad-bridge inspect PORT -trace: what cannot be told by looking.
#include <chrono>

#include "tests/plugin/cli_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class Traced : public CliWorld {
 protected:
  void SetUp() override {
    const json result = Attach(Publish({Port(8080, 80)}));
    veth_ = HostVethOf(result);
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "hello");
    host().Must({"nft",
                 Cat("table ip mine { chain f { type filter hook forward priority 5; ip daddr ",
                     AddressOf(result),
                     " meta length 60-64 drop; }; }")});
  }
  [[nodiscard]] bool HasTable() {
    return host().Must({"nft", "list", "tables"}).find("nomad-bridge-trace") != std::string::npos;
  }
  [[nodiscard]] Process StartTrace(const std::vector<std::string>& from = {"-from", kOutsideIp4}) {
    std::vector<std::string> words = {"inspect", "8080", "-trace"};
    words.insert(words.end(), from.begin(), from.end());
    Process inspect = Process::Start(Line(words));
    EXPECT_TRUE(Soon([&] { return HasTable(); }));
    return inspect;
  }

  std::string veth_;
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

TEST_F(Traced, SendsOneOfItsOwnWithoutAClient) {
  EXPECT_THAT(Output("inspect 8080 -trace"),
              AllOf(HasSubstr("Trace        inet nomad-bridge, chain output, rule with handle "),
                    HasSubstr("\n             answer: inet nomad-bridge, chain ")));
  EXPECT_THAT(RunLine("inspect 8080 -trace -json").json.at("trace").at(0).get<std::string>(),
              StartsWith("inet nomad-bridge, chain output, rule with handle "));
  EXPECT_FALSE(HasTable());
  EXPECT_THAT(Execute(LineWithoutRoot({"inspect", veth_, "-trace"})),
              Exits(2, Err(HasSubstr("inspect -trace needs root"))));
}

TEST_F(Traced, IsOverSoonAfterTheClientsConnection) {
  host().Must(Words("nft flush table ip mine"));
  const auto begin = std::chrono::steady_clock::now();
  Process inspect = StartTrace();
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_THAT(inspect.Wait(), Exits(0, Out(HasSubstr("\n             answer: "))));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
}

TEST_F(Traced, WithoutAClientTellsNothingOfOthers) {
  Process inspect = StartTrace({});
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
  EXPECT_THAT(inspect.Wait(), Exits(0, Out(Not(HasSubstr(": drop\n")))));
}

// The table is its process's own.
TEST_F(Traced, LeavesNothingWhenItIsKilled) {
  const Process inspect = StartTrace();
  ::kill(inspect.pid(), SIGKILL);
  EXPECT_TRUE(Soon([&] { return !HasTable(); }));
}

}  // namespace
}  // namespace nomad_bridge::test
