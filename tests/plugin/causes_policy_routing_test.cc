// Rules of policy routing on nodes whose published ports answer: none of them is a cause.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

class CauseOfOneClient : public CausesWorld {};

// Anyone else is answered.
TEST_F(CauseOfOneClient, IsNoneOfAnyone) {
  for (const char* const rule : {"from 203.0.113.0/24", "from 198.0.0.0/8"}) {
    const std::string words = Cat(rule, " iif uplink prohibit priority 100");
    host().Must(Words(Cat("ip rule add ", words)));
    EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr) << rule;
    EXPECT_FALSE(DoctorsChecks().contains("ports.blocked")) << rule;
    host().Must(Words(Cat("ip rule del ", words)));
  }
}

class CauseBehindMarks : public CausesWorld {};

// What comes in is marked, and let through by that.
TEST_F(CauseBehindMarks, IsNone) {
  host().Must({"sh",
               "-ec",
               "iptables -t mangle -A PREROUTING -i uplink -j MARK --set-mark 7; ip rule add "
               "fwmark 7 lookup main priority 90; ip link add away up type bridge; ip route add "
               "default dev away table 77"});
  for (const char* const rule : {"prohibit", "lookup 77"}) {
    host().Must(Words(Cat("ip rule add iif uplink priority 100 ", rule)));
    ASSERT_TRUE(Answers(Way::kTcp)) << rule;
    EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr) << rule;
    EXPECT_FALSE(DoctorsChecks().contains("ports.blocked")) << rule;
    host().Must(Words(Cat("ip rule del iif uplink priority 100 ", rule)));
  }
}

}  // namespace
}  // namespace nomad_bridge::test
