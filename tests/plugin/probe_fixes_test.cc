// The commands that inspect prints open what they are for, and nothing else. What they open stays
// open for the next allocation, which has another address.
#include "tests/plugin/probe_world.h"

namespace nomad_bridge::test {
namespace {

constexpr std::uint16_t kOtherPort = 8091;  // of another allocation, whose service has port 81

class PastedFix : public ProbeWorld {
 protected:
  void SetUp() override {
    ProbeWorld::SetUp();
    Node& other = AddContainer("other");
    Attach(Publish({Port(kOtherPort, 81)}, DualStack()), As("other", other));
    Serve(other, Protocol::kTcp, {"::"}, 81, "other");
  }

  [[nodiscard]] bool IsOtherOpen() {
    const char* const to = GetParam().way == kTcp6 ? kHostIp6 : kHostIp4;
    return Ask(outside(), {.to = to, .port = kOtherPort, .patience = kPatience}).has_value();
  }

  static constexpr std::chrono::milliseconds kPatience{300};
};

// The row's field `says` is what stays closed: "far" or "other", or both.
TEST_P(PastedFix, OpensNothingElseAndLasts) {
  const bool is_far_closed = GetParam().says.find("far") != std::string::npos;
  const bool is_other_closed = GetParam().says.find("other") != std::string::npos;
  ASSERT_TRUE(Answers(GetParam().way));
  ASSERT_TRUE(IsOtherOpen());
  host().Shell(Filled(GetParam().damage));
  ASSERT_FALSE(Answers(GetParam().way, kPatience));
  PasteFixes(GetParam().way);
  EXPECT_TRUE(Answers(GetParam().way));
  EXPECT_NE(Answers(kFar, kPatience), is_far_closed);
  EXPECT_NE(IsOtherOpen(), is_other_closed);

  Node& next = AddContainer("next");
  Detach(ports_, As(kAllocation, container()));
  EXPECT_NE(AddressOf(Attach(ports_, As("next", next))), address_);
  Serve(next, Protocol::kTcp, {"::"}, 80, "next");
  EXPECT_TRUE(Answers(GetParam().way));
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    PastedFix,
    ::testing::ValuesIn(std::vector<Broken>{
        {"DropAboveOurJump",
         "iptables -I FORWARD -j DROP; iptables -I FORWARD -s 203.0.113.5 -j DROP",
         "far"},
        {"DropAboveOurJump6",
         "ip6tables -I FORWARD -j DROP; ip6tables -I FORWARD -p tcp --dport 81 -j DROP",
         "other",
         kTcp6},
        {"RejectAboveOurJump", "iptables -I FORWARD -j REJECT", ""},
        {"DropInAChainAboveOurJump",
         "iptables -N FW; iptables -A FW -s 203.0.113.5 -j DROP; iptables -A FW -j DROP; iptables "
         "-I FORWARD -j FW",
         "far"},
        {"DropAboveTheOperatorsChain",
         "iptables -I NOMAD-ADMIN -s 203.0.113.5 -j DROP; iptables -I FORWARD -j DROP",
         "far"},
        {"PortAboveTheOperatorsChain",
         "iptables -I NOMAD-ADMIN -s 203.0.113.5 -j DROP; iptables -I FORWARD -p tcp --dport 80:81 "
         "-j DROP",
         "far other"},
        {"Port6", "ip6tables -I FORWARD -p tcp --dport 80:81 -j DROP", "other", kTcp6},
        {"PortOfAnAddress", "iptables -I FORWARD -d $ADDRESS -p tcp --dport 80 -j DROP", ""},
        {"PortBehindABlocklist",
         "nft 'table inet mine { chain f { type filter hook forward priority 10; ip saddr "
         "203.0.113.5 drop; tcp dport 80-81 drop; }; }'",
         "far other"},
        {"PortBehindABlocklist6",
         "nft 'table inet mine { chain f { type filter hook forward priority 10; ip saddr "
         "203.0.113.5 drop; tcp dport 80-81 drop; }; }'",
         "far other",
         kTcp6},
        {"PortBeforeOurs",
         "nft 'table inet mine { chain f { type filter hook forward priority -10; ip saddr "
         "203.0.113.5 drop; tcp dport 80-81 drop; }; }'",
         "far other"},
        {"PortAtPrerouting6",
         "nft 'table ip6 mine { chain p { type filter hook prerouting priority 0; tcp dport 80-81 "
         "drop; }; }'",
         "other",
         kTcp6},
        {"PolicyBehindABlocklist",
         "nft 'table inet mine { chain f { type filter hook forward priority 10; policy drop; ip "
         "saddr 203.0.113.5 drop; tcp dport 81 drop; }; }'",
         "far other"},
        {"PolicyBehindABlocklist6",
         "nft 'table inet mine { chain f { type filter hook forward priority 10; policy drop; tcp "
         "dport 81 drop; ct state established accept; }; }'",
         "other",
         kTcp6},
    }),
    kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
