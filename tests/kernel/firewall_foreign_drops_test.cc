// Base chains of other programs at the forward hook, made by nft(8) and iptables(8): which of them
// drop everything, as their structure shows, without a word about our bridge or mark.
#include "firewall/foreign_drops.h"
#include "netlink/core/netns.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr int kMarkBit = 12;

// What is in table inet mine. "AFTER drop;" begins a base chain with that policy which comes after
// ours, "BEFORE drop;" one that comes before ours.
struct ForeignChain : Named {
  const char* text;
  const char* drops = "chain f of table inet mine (policy drop) comes after ours and drops";
};

// One network, whose bridge is "nomad", and an allocation of both families.
class ForeignDrops : public World {
 protected:
  ForeignDrops() : socket_(nft::Socket::In(netlink::Netns::Current())) {
    host().Nft(
        "table inet nomad-bridge { set bridges { type ifname; elements = { \"nomad\" }; }; set "
        "alloc4 "
        "{ type ipv4_addr; elements = { 172.26.64.2 }; }; set alloc6 { type ipv6_addr; elements = "
        "{ "
        "fd00:26::2 }; }; }");
  }

  void Add(std::string text) {
    for (const auto& [word, priority] : {std::pair{"AFTER", 10}, std::pair{"BEFORE", -10}}) {
      const std::size_t at = text.find(word);
      if (at != std::string::npos) {
        text.replace(at,
                     std::string_view(word).size(),
                     Cat("type filter hook forward priority ", priority, "; policy"));
      }
    }
    host().Nft(Cat("table inet mine {\n", text, "\n}\n"));
  }

  // Returns a line for each drop; "" if there is none.
  std::string Found() {
    std::vector<std::string> found;
    for (const Finding& drop : firewall::FindForeignDrops(socket_, kMarkBit)) {
      found.push_back(drop.text);
    }
    return Joined(found, "\n");
  }

  nft::Socket socket_;
};

class DroppingChain : public ForeignDrops, public ::testing::WithParamInterface<ForeignChain> {};
class OpenChain : public ForeignDrops, public ::testing::WithParamInterface<ForeignChain> {};

TEST_P(DroppingChain, IsNamed) {
  Add(GetParam().text);
  EXPECT_EQ(Found(), GetParam().drops);
}

constexpr const char* kNothingOut =
    "chain f of table inet mine (policy drop) comes after ours and drops what allocations send";
constexpr const char* kNothingIn =
    "chain f of table inet mine (policy drop) comes after ours and drops what is sent to "
    "allocations";
constexpr const char* kByRule =
    "chain f of table inet mine (a rule for all packets) comes after ours and drops";
constexpr const char* kBefore =
    "chain f of table inet mine (policy drop) comes before ours and drops";

INSTANTIATE_TEST_SUITE_P(
    Chains,
    DroppingChain,
    ::testing::ValuesIn(std::vector<ForeignChain>{
        {"Policy", "chain f { AFTER drop; }"},
        {"PolicyBefore", "chain f { BEFORE drop; }", kBefore},
        {"PolicyBeforeThatAcceptsTheMark",
         "chain f { BEFORE drop; meta mark and 0x1000 == 0x1000 accept; }",
         kBefore},
        {"BehindOtherLinks",
         "chain f { AFTER drop; iifname eth0 accept; iifname { eth1, eth2 } accept; iifname != "
         "nomad accept; }",
         kNothingOut},
        {"BehindOtherLinksThatItGoesTo",
         "chain f { AFTER drop; oifname \"docker*\" accept; oifname { eth1, eth2 } accept; }",
         kNothingIn},
        {"Rule",
         "chain f { AFTER accept; counter log prefix \"late: \" meta nftrace set 0 drop; }",
         kByRule},
        {"Reject", "chain f { AFTER accept; reject with icmpx admin-prohibited; }", kByRule},
        {"BehindAnAcceptOfAnswers",
         "chain f { AFTER drop; ct state established,related accept; ct state invalid drop; }"},
        {"BehindAnAcceptOfAnswersBySet",
         "chain f { AFTER drop; ct state vmap { established : accept, related : accept }; }"},
        {"NewByRule", "chain f { AFTER accept; ct state new drop; }", kByRule},
        {"NotEstablished",
         "chain f { AFTER accept; ct state != { established, related } drop; }",
         kByRule},
        {"BehindOtherProtocols",
         "chain f { AFTER accept; ip protocol icmp accept; ip6 nexthdr icmpv6 accept; meta "
         "l4proto { icmp, ipv6-icmp } accept; udp dport 53 accept; drop; }",
         kByRule},
        {"BehindAPortThatIsAccepted",
         "chain ok { accept; }; chain f { AFTER drop; tcp dport 80 goto ok; tcp dport 1000-2000 "
         "accept; tcp sport { 1, 2 } accept; icmp type echo-request accept; }"},
        {"BehindAPortThatIsReturned",
         "chain ask { tcp dport 80 return; drop; }; chain f { AFTER drop; jump ask; }",
         kByRule},
        {"BehindTheLoopback", "chain f { AFTER drop; iifname lo accept; }", kNothingOut},
        {"BehindTwoOtherLinks",
         "chain f { AFTER drop; iifname eth0 oifname eth1 accept; iifname eth1 oifname eth0 ct "
         "state new accept; }"},
        {"StateByMap",
         "chain no { drop; }; chain f { AFTER accept; ct state vmap { established : accept, new : "
         "jump no }; }",
         kByRule},
        {"Jump", "chain no { log; drop; }; chain f { AFTER accept; jump no; }", kByRule},
        {"JumpThatReturns",
         "chain ask { iifname eth0 accept; return; accept; }; chain f { AFTER drop; jump ask; }",
         kNothingOut},
        {"JumpThatReturnsByGoto",
         "chain end { ct state established accept; }; chain ask { goto end; accept; }; chain f { "
         "AFTER drop; jump ask; }"},
        {"Goto",
         "chain last { ct state established accept; }; chain f { AFTER drop; goto last; accept; "
         "}"},
        {"Return", "chain f { AFTER drop; return; accept; }"},
        {"BehindAMaybeDrop",
         "chain no { drop; }; chain f { AFTER drop; limit rate over 900/second jump no; tcp "
         "dport 25 reject; }"},
        {"BehindSeveralMaybeDrops",
         "chain f { AFTER accept; tcp dport 80 drop; ip saddr 192.0.2.1 drop; drop; }",
         kByRule},
        {"BehindPublishedPorts",
         "chain f { AFTER drop; ct state established,related accept; ct status dnat accept; }",
         kNothingOut},
        {"BehindPublishedPortsOfNixOs",
         "chain forward-allow { icmpv6 type != { router-renumbering, 139 } accept; ct status dnat "
         "accept; }; chain f { AFTER drop; ct state vmap { invalid : drop, established : accept, "
         "related : accept, new : jump forward-allow, untracked : jump forward-allow }; }",
         kNothingOut},
        {"BehindAnswersOfABridge",
         "chain f { AFTER drop; iifname nomad ct state established accept; ct state established "
         "oifname nomad accept; }"},
        {"BehindOneDirection",
         "chain f { AFTER drop; iifname eth0 oifname nomad accept; }",
         kNothingOut},
        {"BehindOneDirectionByJump",
         "chain in { oifname nomad accept; }; chain f { AFTER drop; iifname eth0 jump in; }",
         kNothingOut},
        {"BehindOneDirectionAtTimes",
         "chain f { AFTER drop; iifname nomad numgen inc mod 2 vmap { 0 : accept }; }",
         kNothingIn},
        {"BehindAPortOfTheBridge", "chain f { AFTER drop; oifname nomad tcp dport 80 accept; }"},
        {"BehindWildcardsOfOtherLinks",
         "chain f { AFTER drop; iifname { \"eth*\", \"docker*\" } accept; }",
         kNothingOut},
        {"BehindAddressesOfOthers",
         "chain f { AFTER drop; ip saddr 10.0.0.0/8 accept; ip saddr { 172.16.0.0/16, "
         "192.168.0.0/16 } accept; ip saddr 172.26.64.128/25 accept; ip6 saddr 2001:db8::/32 "
         "accept; }",
         kNothingOut},
        {"BehindOneDirectionOfAnAddress",
         "chain f { AFTER drop; ip saddr { 172.26.64.0/20, 10.0.0.0/8 } accept; }",
         kNothingIn},
        {"BehindAnEmptySet",
         "set s { type ipv4_addr; }; chain f { AFTER drop; ip saddr @s accept; }",
         kNothingOut},
        {"BehindAnAcceptOfAnotherBase",
         "chain e { type filter hook forward priority 5; accept; }; chain f { AFTER drop; }"},
    }),
    kNameOf);

TEST_P(OpenChain, IsNotNamed) {
  Add(GetParam().text);
  EXPECT_EQ(Found(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Chains,
    OpenChain,
    ::testing::ValuesIn(std::vector<ForeignChain>{
        {"Policy", "chain f { AFTER accept; }"},
        {"OtherHook", "chain f { type filter hook input priority 10; policy drop; }"},
        {"NoBase", "chain f { drop; }"},
        {"Dormant", "flags dormant; chain f { AFTER drop; }"},
        {"Accept", "chain f { AFTER drop; counter accept; }"},
        {"NewConnections", "chain f { AFTER drop; ct state new,established,related accept; }"},
        {"NewConnectionsByMap",
         "chain new { iifname . oifname { nomad . eth0 } accept; }; chain f { AFTER drop; ct state "
         "vmap { established : accept, invalid : drop, new : jump new }; }"},
        {"Invalid", "chain f { AFTER accept; ct state invalid drop; }"},
        {"OtherLinkInBothDirections",
         "chain f { AFTER drop; iifname eth0 accept; oifname { eth0, eth1 } accept; }"},
        {"AllOfTcp", "chain f { AFTER drop; meta l4proto { tcp, udp } accept; }"},
        {"OtherPorts", "chain f { AFTER drop; tcp dport != 25 accept; }"},
        {"BridgeThatReturns",
         "chain f { AFTER accept; iifname nomad return; oifname nomad return; drop; }"},
        {"Mark", "chain f { AFTER drop; meta mark and 0x1000 == 0x1000 accept; }"},
        {"MarkOrAnswers",
         "chain f { AFTER drop; ct state { established, related } accept; meta mark and 0x1000 "
         "!= 0 accept; }"},
        {"MarkInAJump",
         "chain ok { meta mark and 0x1000 == 0x1000 counter log accept; }; chain f { AFTER drop; "
         "jump ok; drop; }"},
        {"MarkSetBefore",
         "chain f { AFTER drop; meta mark set meta mark or 0x2000; meta mark and 0x2000 == "
         "0x2000 accept; }"},
        {"MarkThatMayBeTakenAway",
         "chain e { type filter hook forward priority 5; tcp dport 80 meta mark set 0; }; chain f "
         "{ AFTER drop; meta mark and 0x1000 == 0x1000 accept; }"},
        {"MarkTakenAwayFromThoseWhoCome",
         "chain ask { tcp dport 80 return; meta mark set 0; }; chain f { AFTER drop; jump ask; "
         "meta mark and 0x1000 == 0x1000 accept; }"},
        {"MarkThatIsNotKnown",
         "chain f { AFTER drop; meta mark set ct mark; meta mark 7 accept; }"},
        {"WholeMark", "chain f { AFTER drop; meta mark 0x1000 accept; }"},
        {"BridgeBefore", "chain f { BEFORE drop; iifname nomad accept; oifname \"nom*\" accept; }"},
        {"BridgeInSets",
         "set s { type ifname; elements = { nomad, eth0 }; }; chain f { BEFORE drop; iifname @s "
         "accept; oifname { nomad } accept; }"},
        {"BridgesOrAnswers",
         "chain f { BEFORE drop; ct state vmap { established : accept, related : accept }; iifname "
         "vmap { nomad : accept, br-other : accept }; oifname { nomad, br-other } accept; }"},
        {"BridgeInMaps",
         "chain ok { accept; }; chain f { BEFORE drop; iifname vmap { nomad : jump ok, eth0 : "
         "drop }; oifname vmap { nomad : goto ok }; }"},
        {"BridgeAndAddress",
         "chain f { BEFORE drop; iifname . ip saddr { nomad . 192.0.2.1 } accept; oifname . tcp "
         "dport { nomad . 80 } accept; meta nfproto ipv6 accept; }"},
        {"BridgeByWildcard",
         "chain f { BEFORE drop; iifname { \"eth*\", \"nom*\" } accept; oifname { \"nomad*\" } "
         "accept; }"},
        {"LinkInNoSet",
         "set s { type ifname; elements = { nomad }; }; chain f { AFTER accept; oifname != @s "
         "iifname != @s drop; }"},
        {"Negated", "chain f { AFTER accept; iifname != nomad oifname != nomad drop; }"},
        {"Established", "chain f { AFTER accept; ct state != new drop; }"},
        {"OtherProtocol", "chain f { AFTER accept; meta l4proto != tcp drop; }"},
        {"Port", "chain f { AFTER accept; tcp dport 80 drop; }"},
        {"Addresses",
         "chain f { AFTER drop; ip saddr 172.16.0.0/12 accept; ip daddr 172.26.64.2 accept; }"},
        {"AddressesInSets",
         "set s { type ipv6_addr; flags interval; elements = { fd00:26::/64, 2001:db8::/32 }; }; "
         "chain f { AFTER drop; ip6 saddr @s accept; ip6 daddr { fd00:26::2, ::1 } accept; }"},
        {"BridgeAndPublishedPorts",
         "chain f { AFTER drop; iifname nomad accept; ct status dnat accept; }"},
        {"Route", "chain f { AFTER accept; fib saddr . iif type unreachable drop; }"},
        {"Rate", "chain f { AFTER drop; limit rate 9/second accept; }"},
        {"Time", "chain f { AFTER drop; meta hour \"08:00\"-\"17:00\" accept; }"},
        {"Group", "chain f { AFTER drop; iifgroup 7 accept; oifgroup 7 accept; }"},
        {"Index", "chain f { AFTER accept; iif lo drop; }"},
        {"Range", "chain f { AFTER drop; meta mark != 0x2000-0x2fff accept; }"},
        {"Order", "chain f { AFTER drop; meta mark >= 0x1000 accept; }"},
        {"MaybeJump", "chain no { drop; }; chain f { AFTER accept; tcp dport 80 jump no; }"},
        {"MaybeMap",
         "chain no { drop; }; chain f { AFTER accept; tcp dport vmap { 80 : drop, 81 : goto no "
         "}; }"},
        {"MaybeMapThatAccepts",
         "chain f { AFTER drop; tcp dport vmap { 80 : drop, 81 : accept }; }"},
        {"Header",
         "chain f { AFTER drop; exthdr frag exists accept; tcp option maxseg size 9 "
         "accept; }"},
        {"OneFamily", "chain f { AFTER drop; meta nfproto ipv4 accept; }"},
        {"DropOfAFamily", "chain f { AFTER accept; meta nfproto ipv6 drop; }"},
        {"DropByWildcard", "chain f { AFTER accept; iifname { \"eth*\", \"nom*\" } drop; }"},
        {"DropOfABridge",
         "set s { type ifname; elements = { nomad }; }; chain f { AFTER accept; oifname @s drop; "
         "}"},
        {"DropOfABridgeByMap",
         "chain f { AFTER accept; iifname vmap { nomad : drop, eth0 : accept }; }"},
        {"LinkAndAddressOfAnother",
         "chain f { AFTER drop; iifname . ip saddr { eth0 . 192.0.2.1 } accept; }"},
        {"OtherMark", "chain f { AFTER drop; meta mark and 0x1000 == 0 accept; }"},
        {"MapOfLinks",
         "chain f { AFTER accept; iifname vmap { nomad : continue, eth0 : accept }; drop; }"},
        {"Dynamic",
         "set s { type ipv4_addr; flags dynamic; size 9; }; chain f { AFTER accept; add @s { ip "
         "saddr limit rate over 9/second } drop; }"},
    }),
    kNameOf);

// A rule that names the bridge and lets only one direction pass may be meant.
TEST_F(ForeignDrops, AreWarningsIfARuleNamesUs) {
  Add("chain f { AFTER drop; ct status dnat accept; }; chain g { type filter hook forward priority "
      "20; policy drop; oifname nomad accept; }");
  const FindingList drops = firewall::FindForeignDrops(socket_, kMarkBit);
  ASSERT_EQ(drops.size(), 2);
  EXPECT_EQ(drops[0].severity, Finding::Severity::kFault);
  EXPECT_EQ(drops[1].severity, Finding::Severity::kWarning);
}

// Chain FORWARD of table filter has our jump; what comes after it is no matter. Table mangle is
// another one.
TEST_F(ForeignDrops, IncludeTheTablesOfIptables) {
  host().Must(Words("iptables -P FORWARD DROP"));
  EXPECT_EQ(Found(), "") << "static_rules.h reports that the jump is missing";
  host().Must(Words("iptables -N CNI-FORWARD"));
  host().Must(Words("iptables -A FORWARD -j CNI-FORWARD"));
  host().Must(Words("iptables -A FORWARD -j DROP"));
  EXPECT_EQ(Found(), "");
  host().Must(Words("iptables -I FORWARD -j DROP"));
  EXPECT_EQ(
      Found(),
      "chain FORWARD of table ip filter (a rule for all packets) comes before our jump and drops");
  host().Must(Words("iptables -D FORWARD 1"));
  host().Must(Words("iptables -t mangle -P FORWARD DROP"));
  EXPECT_EQ(Found(), "chain FORWARD of table ip mangle (policy drop) comes before ours and drops");
  host().Must(Words("iptables -t mangle -A FORWARD -i nomad -j ACCEPT"));
  host().Must(Words("iptables -t mangle -A FORWARD -o nomad -j ACCEPT"));
  EXPECT_EQ(Found(), "");
}

// As Docker makes it, it comes before our jump if Docker starts after us.
TEST_F(ForeignDrops, LeaveOutTheOperatorsChain) {
  for (const char* const rule : {"-N CNI-FORWARD",
                                 "-A FORWARD -j CNI-FORWARD",
                                 "-N DOCKER-USER",
                                 "-A DOCKER-USER -j DROP",
                                 "-I FORWARD -j DOCKER-USER"}) {
    host().Must(Words(Cat("iptables ", rule)));
  }
  EXPECT_EQ(Found(), "");
}

// Each comes directly before the drop: rules before that stay in force. A chain that others lead
// to, too, stays as it is.
TEST_F(ForeignDrops, HaveCommandsForTheirPlace) {
  Add("chain f { AFTER drop; ip saddr 192.0.2.1 drop; }\n"
      "chain last { ct state established accept; }\n"
      "chain g { type filter hook forward priority 20; policy drop; goto last; }\n"
      "chain no { log; drop; }\n"
      "chain h { type filter hook forward priority 30; ip saddr 192.0.2.1 jump no; jump no; }\n"
      "chain own { ip saddr 192.0.2.1 drop; drop; }\n"
      "chain i { type filter hook forward priority 40; jump own; }");
  for (const Finding& drop : firewall::FindForeignDrops(socket_, kMarkBit)) {
    host().Shell(drop.fix.command);
  }
  EXPECT_EQ(Found(), "");
  const std::string accept = "meta mark & 0x00001000 == 0x00001000 accept";
  const auto lines = [&](const char* chain) {
    return host().Must(Words(Cat("nft list chain inet mine ", chain)));
  };
  EXPECT_THAT(lines("f"), HasSubstr(Cat("192.0.2.1 drop\n\t\t", accept)));
  EXPECT_THAT(lines("last"), HasSubstr(Cat("established accept\n\t\t", accept)));
  EXPECT_THAT(lines("no"), Not(HasSubstr(accept)));
  EXPECT_THAT(lines("h"), HasSubstr(Cat("jump no\n\t\t", accept, "\n\t\tjump no")));
  EXPECT_THAT(lines("own"), HasSubstr(Cat("192.0.2.1 drop\n\t\t", accept, "\n\t\tdrop")));
}

TEST_F(ForeignDrops, AreInTheOrderOfTheKernel) {
  Add("chain g { type filter hook forward priority 20; policy drop; }; chain f { AFTER drop; }");
  EXPECT_EQ(Found(),
            "chain g of table inet mine (policy drop) comes after ours and drops\n"
            "chain f of table inet mine (policy drop) comes after ours and drops");
}

TEST_F(ForeignDrops, AreOpenedByTheirCommands) {
  host().Nft("add element inet nomad-bridge bridges { \"br-other\" }");
  Add("chain f { AFTER drop; }; chain g { BEFORE drop; }");
  for (const Finding& drop : firewall::FindForeignDrops(socket_, kMarkBit)) {
    host().Shell(drop.fix.command);
  }
  EXPECT_EQ(Found(), "");
  const std::string rules = host().Must(Words("nft list chain inet mine g"));
  EXPECT_THAT(rules, AllOf(HasSubstr("iifname \"nomad\""), HasSubstr("oifname \"br-other\"")));
}

// The last element of the map, "*", stands for all keys that no other element has.
TEST_F(ForeignDrops, IncludeTheCatchAllElementOfAMap) {
  if (host()
          .Run(Words("nft add table t; add map t m { type mark : verdict; elements = { * : drop "
                     "}; }; delete table t"))
          .exit_code != 0) {
    return;  // before Linux 5.13
  }
  Add("chain f { AFTER accept; ct state vmap { established : accept, * : drop }; }");
  EXPECT_EQ(Found(), kByRule);
  host().Nft(
      "flush chain inet mine f; add rule inet mine f ct state vmap { new : accept, * : drop }");
  EXPECT_EQ(Found(), "");
}

// We know neither what a program that reads the queue decides, nor what an xt match tests.
TEST_F(ForeignDrops, LeaveOutRulesThatExtensionsDecide) {
  for (const char* const rule : {"-j NFQUEUE --queue-num 7", "-m mark --mark 0x7 -j ACCEPT"}) {
    host().Must(Words("iptables -t mangle -P FORWARD DROP"));
    host().Must(Words(Cat("iptables -t mangle -A FORWARD ", rule)));
    EXPECT_EQ(Found(), "") << rule;
    host().Must(Words("iptables -t mangle -F FORWARD"));
  }
}

}  // namespace
}  // namespace nomad_bridge::test
