// Each word of nft::Rule against what nft 1.0.6 makes of the same rule (nft --debug=netlink). Two
// things are spelled out more than nft does, as the kernel shows them afterwards: a lookup's flags,
// and the upper ends and flags of a dnat.
#include "netlink/nft/rule.h"
#include "netlink/nft/socket.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

Cidr Prefix(const std::string& text) {
  return Cidr::Parse(text).value();
}

// Returns the rule's expressions after the two with which every rule of family `number` begins.
std::vector<std::string> OfFamily(const char* number, const nft::Rule& rule) {
  std::vector<std::string> texts = nft::ExpressionTexts(rule);
  EXPECT_EQ(texts.at(0), "[ meta load nfproto => reg 1 ]");
  EXPECT_EQ(texts.at(1), Format("[ cmp eq reg 1 0x000000{} ]", number));
  texts.erase(texts.begin(), texts.begin() + 2);
  return texts;
}

TEST(NftRule, MatchesInterfacesBySet) {
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().IifnameIn("bridges").OifnameNotIn("bridges").Drop()),
              ElementsAre("[ meta load iifname => reg 1 ]",
                          "[ lookup reg 1 set bridges 0x0 ]",
                          "[ meta load oifname => reg 1 ]",
                          "[ lookup reg 1 set bridges 0x1 ]",
                          "[ immediate reg 0 drop ]"));
}

TEST(NftRule, LoadsAddressesAtEachFamilysOffsets) {
  EXPECT_THAT(OfFamily("02", nft::Rule().Ipv4().SaddrIn("a4").DaddrIn("b4")),
              ElementsAre("[ payload load 4b @ network header + 12 => reg 1 ]",
                          "[ lookup reg 1 set a4 0x0 ]",
                          "[ payload load 4b @ network header + 16 => reg 1 ]",
                          "[ lookup reg 1 set b4 0x0 ]"));
  EXPECT_THAT(OfFamily("0a", nft::Rule().Ipv6().SaddrIn("a6").DaddrIn("b6")),
              ElementsAre("[ payload load 16b @ network header + 8 => reg 1 ]",
                          "[ lookup reg 1 set a6 0x0 ]",
                          "[ payload load 16b @ network header + 24 => reg 1 ]",
                          "[ lookup reg 1 set b6 0x0 ]"));
}

TEST(NftRule, ComparesPrefixesAsNftDoes) {
  EXPECT_THAT(OfFamily("02", nft::Rule().Ipv4().Saddr(Prefix("127.0.0.0/8"))),
              ElementsAre("[ payload load 1b @ network header + 12 => reg 1 ]",
                          "[ cmp eq reg 1 0x0000007f ]"));
  EXPECT_THAT(OfFamily("02", nft::Rule().Ipv4().DaddrNot(Prefix("224.0.0.0/4"))),
              ElementsAre("[ payload load 4b @ network header + 16 => reg 1 ]",
                          "[ bitwise reg 1 = ( reg 1 & 0x000000f0 ) ^ 0x00000000 ]",
                          "[ cmp neq reg 1 0x000000e0 ]"));
  EXPECT_THAT(OfFamily("0a", nft::Rule().Ipv6().Saddr(Prefix("::1/128"))),
              ElementsAre("[ payload load 16b @ network header + 8 => reg 1 ]",
                          "[ cmp eq reg 1 0x00000000 0x00000000 0x00000000 0x01000000 ]"));
  EXPECT_THAT(OfFamily("0a", nft::Rule().Ipv6().DaddrNot(Prefix("ff00::/8"))),
              ElementsAre("[ payload load 1b @ network header + 24 => reg 1 ]",
                          "[ cmp neq reg 1 0x000000ff ]"));
}

TEST(NftRule, MatchesLocalAddressesAndConntrackBits) {
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().DaddrIsLocal().Goto("hostports")),
              ElementsAre("[ fib daddr type => reg 1 ]",
                          "[ cmp eq reg 1 0x00000002 ]",
                          "[ immediate reg 0 goto -> hostports ]"));
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().CtState(nft::kCtEstablished | nft::kCtRelated)),
              ElementsAre("[ ct load state => reg 1 ]",
                          "[ bitwise reg 1 = ( reg 1 & 0x00000006 ) ^ 0x00000000 ]",
                          "[ cmp neq reg 1 0x00000000 ]"));
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().CtStatusDnat()),
              ElementsAre("[ ct load status => reg 1 ]",
                          "[ bitwise reg 1 = ( reg 1 & 0x00000020 ) ^ 0x00000000 ]",
                          "[ cmp neq reg 1 0x00000000 ]"));
}

// ct state new,untracked jump admit
TEST(NftRule, MatchesNewConnections) {
  EXPECT_THAT(
      nft::ExpressionTexts(nft::Rule().CtState(nft::kCtNew | nft::kCtUntracked).Jump("admit")),
      ElementsAre("[ ct load state => reg 1 ]",
                  "[ bitwise reg 1 = ( reg 1 & 0x00000048 ) ^ 0x00000000 ]",
                  "[ cmp neq reg 1 0x00000000 ]",
                  "[ immediate reg 0 jump -> admit ]"));
}

// tcp dport 9090-9199 counter return, tcp dport 80 drop
TEST(NftRule, MatchesRangesOfPorts) {
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().L4Proto(6).Dport(9090, 9199).Counter().Return()),
              ElementsAre("[ meta load l4proto => reg 1 ]",
                          "[ cmp eq reg 1 0x00000006 ]",
                          "[ payload load 2b @ transport header + 2 => reg 1 ]",
                          "[ cmp gte reg 1 0x00008223 ]",
                          "[ cmp lte reg 1 0x0000ef23 ]",
                          "[ counter pkts 0 bytes 0 ]",
                          "[ immediate reg 0 return ]"));
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().L4Proto(6).Dport(80, 80).Drop()),
              ElementsAre("[ meta load l4proto => reg 1 ]",
                          "[ cmp eq reg 1 0x00000006 ]",
                          "[ payload load 2b @ transport header + 2 => reg 1 ]",
                          "[ cmp eq reg 1 0x00005000 ]",
                          "[ immediate reg 0 drop ]"));
}

// ip saddr vmap @out4, ip6 daddr vmap @in6
TEST(NftRule, LetsAMapDecide) {
  EXPECT_THAT(OfFamily("02", nft::Rule().Ipv4().SaddrVmap("out4")),
              ElementsAre("[ payload load 4b @ network header + 12 => reg 1 ]",
                          "[ lookup reg 1 set out4 dreg 0 0x0 ]"));
  EXPECT_THAT(OfFamily("0a", nft::Rule().Ipv6().DaddrVmap("in6")),
              ElementsAre("[ payload load 16b @ network header + 24 => reg 1 ]",
                          "[ lookup reg 1 set in6 dreg 0 0x0 ]"));
}

// ip daddr set ct original ip daddr tcp dport set ct original proto-dst, as nft 1.0.6 sends it
TEST(NftRule, RestoresWhereTcpWasSent) {
  constexpr nft::Rule::Way kWay = nft::Rule::Way::kOriginal;
  EXPECT_THAT(nft::ExpressionTexts(
                  nft::Rule().L4Proto(6).CtDirection(kWay).Ipv4().RestoreTcpDestination(kWay)),
              ElementsAre("[ meta load l4proto => reg 1 ]",
                          "[ cmp eq reg 1 0x00000006 ]",
                          "[ ct load direction => reg 1 ]",
                          "[ cmp eq reg 1 0x00000000 ]",
                          "[ meta load nfproto => reg 1 ]",
                          "[ cmp eq reg 1 0x00000002 ]",
                          "[ ct load dst_ip => reg 1 , dir original ]",
                          "[ payload write reg 1 => 4b @ network header + 16 csum_type 1 csum_off "
                          "10 csum_flags 0x1 ]",
                          "[ ct load proto_dst => reg 1 , dir original ]",
                          "[ payload write reg 1 => 2b @ transport header + 2 csum_type 1 csum_off "
                          "16 csum_flags 0x0 ]"));
}

TEST(NftRule, RejectsInTheWordsOfEitherFamily) {
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().Counter().RejectAdminProhibited()),
              ElementsAre("[ counter pkts 0 bytes 0 ]", "[ reject type 2 code 3 ]"));
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().RejectTcpReset()),
              ElementsAre("[ reject type 1 code 0 ]"));
}

TEST(NftRule, NotesTheKeyOfAPacketWithACounter) {
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().NoteIfnames("drops", 1000)),
              ElementsAre("[ meta load iifname => reg 1 ]",
                          "[ meta load oifname => reg 2 ]",
                          "[ dynset update reg_key 1 set drops timeout 1000ms expr [ counter pkts "
                          "0 bytes 0 ] ]"));
}

TEST(NftRule, MatchesAnyOtherInterface) {
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().OifnameIsNot("eth0")),
              ElementsAre("[ meta load oifname => reg 1 ]",
                          "[ cmp neq reg 1 0x30687465 0x00000000 0x00000000 0x00000000 ]"));
}

TEST(NftRule, LooksUpSourceAndDestinationInTheRegistersNftUses) {
  EXPECT_THAT(OfFamily("02", nft::Rule().Ipv4().SaddrAndDaddrIn("nomasq4")),
              ElementsAre("[ payload load 4b @ network header + 12 => reg 1 ]",
                          "[ payload load 4b @ network header + 16 => reg 9 ]",
                          "[ lookup reg 1 set nomasq4 0x0 ]"));
  EXPECT_THAT(OfFamily("0a", nft::Rule().Ipv6().SaddrAndDaddrIn("nomasq6")),
              ElementsAre("[ payload load 16b @ network header + 8 => reg 1 ]",
                          "[ payload load 16b @ network header + 24 => reg 2 ]",
                          "[ lookup reg 1 set nomasq6 0x0 ]"));
}

TEST(NftRule, SetsAndReadsOneBitOfTheMark) {
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().SetMarkBit(12).Accept()),
              ElementsAre("[ meta load mark => reg 1 ]",
                          "[ bitwise reg 1 = ( reg 1 & 0xffffefff ) ^ 0x00001000 ]",
                          "[ meta set mark with reg 1 ]",
                          "[ immediate reg 0 accept ]"));
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().MarkBitIsSet(31).Counter().Jump("there")),
              ElementsAre("[ meta load mark => reg 1 ]",
                          "[ bitwise reg 1 = ( reg 1 & 0x80000000 ) ^ 0x00000000 ]",
                          "[ cmp eq reg 1 0x80000000 ]",
                          "[ counter pkts 0 bytes 0 ]",
                          "[ immediate reg 0 jump -> there ]"));
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().MarkBitIsNotSet(12).Drop()),
              ElementsAre("[ meta load mark => reg 1 ]",
                          "[ bitwise reg 1 = ( reg 1 & 0x00001000 ) ^ 0x00000000 ]",
                          "[ cmp neq reg 1 0x00001000 ]",
                          "[ immediate reg 0 drop ]"));
}

TEST(NftRule, TranslatesByMapInTheRegistersNftUses) {
  EXPECT_THAT(OfFamily("02", nft::Rule().Ipv4().DnatByPort("port4")),
              ElementsAre("[ meta load l4proto => reg 1 ]",
                          "[ payload load 2b @ transport header + 2 => reg 9 ]",
                          "[ lookup reg 1 set port4 dreg 1 0x0 ]",
                          "[ nat dnat ip addr_min reg 1 addr_max reg 1 proto_min reg 9 proto_max "
                          "reg 9 flags 0x3 ]"));
  EXPECT_THAT(OfFamily("0a", nft::Rule().Ipv6().DnatByAddressAndPort("hostip6")),
              ElementsAre("[ payload load 16b @ network header + 24 => reg 1 ]",
                          "[ meta load l4proto => reg 2 ]",
                          "[ payload load 2b @ transport header + 2 => reg 13 ]",
                          "[ lookup reg 1 set hostip6 dreg 1 0x0 ]",
                          "[ nat dnat ip6 addr_min reg 1 addr_max reg 1 proto_min reg 2 proto_max "
                          "reg 2 flags 0x3 ]"));
}

// libnftnl 1.2 prints the key of `ct id` as unknown.
TEST(NftRule, KeepsConnectionsInASetByTheirId) {
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().CtIdIn("cut").KeepCtIdIn("cut", 1000).Drop()),
              ElementsAre(StartsWith("[ ct load "),
                          "[ lookup reg 1 set cut 0x0 ]",
                          StartsWith("[ ct load "),
                          "[ dynset update reg_key 1 set cut timeout 1000ms ]",
                          "[ immediate reg 0 drop ]"));
  EXPECT_THAT(
      nft::ExpressionTexts(nft::Rule().DeleteCtIdFrom("cut")),
      ElementsAre(StartsWith("[ ct load "), "[ dynset delete reg_key 1 set cut timeout 0ms ]"));
}

TEST(NftRule, LooksUpPairsOfInterfaces) {
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().IfnamesIn("pairs").Accept()),
              ElementsAre("[ meta load iifname => reg 1 ]",
                          "[ meta load oifname => reg 2 ]",
                          "[ lookup reg 1 set pairs 0x0 ]",
                          "[ immediate reg 0 accept ]"));
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().IifnameTwiceIn("pairs").SetPriority(0x6e626120)),
              ElementsAre("[ meta load iifname => reg 1 ]",
                          "[ meta load iifname => reg 2 ]",
                          "[ lookup reg 1 set pairs 0x0 ]",
                          "[ immediate reg 1 0x6e626120 ]",
                          "[ meta set priority with reg 1 ]"));
}

TEST(NftRule, LooksUpWhatLeavesByAPort) {
  EXPECT_THAT(nft::ExpressionTexts(
                  nft::Rule().Protocol(0x0800).OutPortWith(nft::kIpDaddr, "addresses").Return()),
              ElementsAre("[ meta load protocol => reg 1 ]",
                          "[ cmp eq reg 1 0x00000008 ]",
                          "[ meta load oifname => reg 1 ]",
                          "[ payload load 4b @ network header + 16 => reg 2 ]",
                          "[ lookup reg 1 set addresses 0x0 ]",
                          "[ immediate reg 0 return ]"));
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().OifnameVmap("in")),
              ElementsAre("[ meta load oifname => reg 1 ]", "[ lookup reg 1 set in dreg 0 0x0 ]"));
  EXPECT_THAT(nft::ExpressionTexts(nft::Rule().PriorityIs(0x6e626120)),
              ElementsAre("[ meta load priority => reg 1 ]", "[ cmp eq reg 1 0x6e626120 ]"));
}

TEST(NftRule, ComparesByValue) {
  EXPECT_EQ(nft::Rule().Masquerade(), nft::Rule().Masquerade());
  EXPECT_NE(nft::Rule().Masquerade(), nft::Rule().Masquerade().Comment("another"));
  EXPECT_NE(nft::Rule().Accept(), nft::Rule().Drop());
}

}  // namespace
}  // namespace nomad_bridge
