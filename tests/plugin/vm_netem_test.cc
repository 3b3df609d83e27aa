// A queue of tc that loses all: inspect and doctor name it, and the fix heals it. Only under a
// kernel with netem: see tests/with-kernel.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

class LossBy : public CausesWorld {
 protected:
  // A slow machine may have asked for the next hop meanwhile, and inspect tells for ten seconds
  // that nobody has answered: what is sent next asks again.
  void Paste(const std::string& fix) override {
    CausesWorld::Paste(fix);
    EXPECT_TRUE(
        Soon([&] { return host().Run(Words("ping -c1 -W1 198.51.100.2")).exit_code == 0; }));
  }
};

TEST_P(LossBy, NetemIsNamedAndItsFixHeals) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Links,
                         LossBy,
                         ::testing::ValuesIn(std::vector<Cause>{
                             {"Uplink",
                              "tc qdisc add dev uplink root netem loss 100%",
                              "'uplink' sends nothing: its queue of kind netem loses all"},
                             {"Port",
                              "tc qdisc add dev VETH root netem loss random 100%",
                              "'VETH' sends nothing: its queue of kind netem loses all"},
                             {"Container",
                              "tc qdisc add dev eth0 root netem loss 100%",
                              "'eth0' sends nothing: its queue of kind netem loses all"},
                         }),
                         kNameOf);

class LossOfSome : public CausesWorld {};

TEST_F(LossOfSome, IsANote) {
  host().Must(Words("tc qdisc add dev uplink root netem loss 1%"));
  EXPECT_THAT(RunLine("inspect 8080"),
              Exits(0, Out(HasSubstr("may lose what it sends: tc -s qdisc show dev uplink\n"))));
}

}  // namespace
}  // namespace nomad_bridge::test
