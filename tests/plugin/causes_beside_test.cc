// Rules of others that do not keep a published port from answering, but something else from or to
// its container: inspect notes them, and is well.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

class RuleBeside : public CausesWorld {
 protected:
  void SetUp() override {
    CausesWorld::SetUp();
    Attach(DualStack(), As("neighbour", neighbour_));
    Serve(outside(), Protocol::kTcp, {"0.0.0.0"}, 80, "from outside");
  }
  [[nodiscard]] bool Asks(Node& from, const std::string& to) {
    return test::Ask(from, {.to = to, .port = 80, .patience = std::chrono::milliseconds(500)})
        .has_value();
  }
  void ExpectNote(const std::string& text) {
    EXPECT_TRUE(Answers(Way::kTcp));
    EXPECT_THAT(RunLine("inspect 8080"), Exits(0, Out(HasSubstr(text))));
    EXPECT_FALSE(DoctorsChecks().contains("ports.blocked"));
  }

  Node& neighbour_ = AddContainer("neighbour");
};

TEST_F(RuleBeside, OfTheBridgeKeepsNeighboursOut) {
  ASSERT_TRUE(Asks(neighbour_, address_));
  host().Nft(
      "table bridge mine { chain f { type filter hook forward priority 0; policy drop; ip "
      "saddr 192.0.2.77 accept; }; }");
  EXPECT_FALSE(Asks(neighbour_, address_));
  ExpectNote(
      "on the node, chain f of table bridge mine (policy drop) drops what its neighbours on "
      "'nomad' "
      "send to it\n");
}

TEST_F(RuleBeside, GivesWhatItSendsAForeignSource) {
  ASSERT_TRUE(Asks(container(), kOutsideIp4));
  for (const char* const rule :
       {"nft 'table ip mine { chain p { type nat hook postrouting priority 90; oifname uplink snat "
        "to 198.51.100.77; }; }'",
        "iptables -t nat -A POSTROUTING -o uplink -j SNAT --to-source 198.51.100.77"}) {
    host().Shell(rule);
    host().Must(Words("conntrack -F"));
    EXPECT_FALSE(Asks(container(), kOutsideIp4)) << rule;
    ExpectNote(
        "gives what it sends out the source 198.51.100.77, which is no address of this node: "
        "answers come only if that is routed here\n");
    host().Shell("nft delete table ip mine 2>/dev/null || true; iptables -t nat -F");
  }
}

// The node's own, and whatever it has by then.
TEST_F(RuleBeside, ThatDoesNoHarmIsNotNoted) {
  host().Shell(
      "nft 'table ip mine { chain p { type nat hook postrouting priority 90; oifname "
      "uplink snat to 198.51.100.1; }; }'; nft 'table bridge mine { chain f { type filter "
      "hook forward priority 0; policy drop; meta l4proto { tcp, udp, icmp, icmpv6 } "
      "accept; ether type arp accept; }; }'");
  EXPECT_TRUE(Asks(container(), kOutsideIp4));
  EXPECT_TRUE(Asks(neighbour_, address_));
  EXPECT_THAT(RunLine("inspect 8080"), Exits(0, Out(Not(HasSubstr("on the node, ")))));
}

}  // namespace
}  // namespace nomad_bridge::test
