// A queue of tc that loses all: inspect and doctor name it, and the fix heals it. Only under a
// kernel with netem: see tests/with-kernel.
#include "tests/plugin/probe_world.h"

namespace nomad_bridge::test {
namespace {

class NetemLoss : public ProbeWorld {};

TEST_P(NetemLoss, IsNamedAndItsFixRepairsIt) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Links,
                         NetemLoss,
                         ::testing::ValuesIn(std::vector<Broken>{
                             {"Uplink",
                              "tc qdisc add dev uplink root netem loss 100%",
                              "'uplink' sends nothing: its queue of kind netem loses all",
                              kTcp,
                              ""},
                             {"Port",
                              "tc qdisc add dev $VETH root netem loss random 100%",
                              "'$VETH' sends nothing: its queue of kind netem loses all",
                              kTcp,
                              "nomad"},
                             {"Container",
                              "tc qdisc add dev eth0 root netem loss 100%",
                              "'eth0' sends nothing: its queue of kind netem loses all",
                              kTcp,
                              "answer"},
                         }),
                         kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
