// The rules by which the reference portmap plugin publishes ports, as iptables of several versions
// and nft write them. Their texts are as the kernel's rules are shown on amd64 and arm64.
#include "base/text.h"
#include "plugin/takeover/dnat_rule.h"
#include "tests/support/test.h"

namespace nomad_bridge::test {
namespace {

using Bytes = nft::Bytes;

struct Expression {
  std::string text;
  Bytes compared = {};
};

std::optional<portmap::DnatEntry> Parsed(const std::vector<Expression>& expressions,
                                         Family family = Family::kIpv4) {
  nft::KernelRule rule;
  for (const Expression& each : expressions) {
    rule.expressions.push_back(each.text);
    rule.compared.push_back(each.compared);
  }
  return takeover::ParseDnatRule(rule, family);
}

const Expression kProtocol{"[ meta load l4proto => reg 1 ]"};
const Expression kTcp{"[ cmp eq reg 1 0x00000006 ]", {6}};
const Expression kPort{"[ payload load 2b @ transport header + 2 => reg 1 ]"};
const Expression k8080{"[ cmp eq reg 1 0x0000901f ]", {0x1f, 0x90}};

portmap::DnatEntry Entry(const std::string& container) {
  return {.protocol = Protocol::kTcp,
          .host_port = 8080,
          .container_ip = Ip::Parse(container).value(),
          .container_port = 80};
}

// iptables 1.8.9
TEST(DnatRule, IsReadFromIptables) {
  const Expression dnat{Cat("[ target name DNAT rev 2 info 03000000ac1a4002",
                            std::string(24, '0'),
                            "ac1a4002",
                            std::string(24, '0'),
                            "0050005000000000 ]")};
  EXPECT_EQ(Parsed({kProtocol, kTcp, kPort, k8080, dnat}), Entry("172.26.64.2"));

  portmap::DnatEntry on_one = Entry("172.26.64.2");
  on_one.host_ip = Ip::Parse("127.0.0.1");
  EXPECT_EQ(Parsed({kProtocol,
                    kTcp,
                    {"[ payload load 4b @ network header + 16 => reg 1 ]"},
                    {"[ cmp eq reg 1 0x0100007f ]", {127, 0, 0, 1}},
                    kPort,
                    k8080,
                    dnat}),
            on_one);
}

// iptables 1.8.7
TEST(DnatRule, IsReadFromItsExtensions) {
  EXPECT_EQ(Parsed({kProtocol,
                    kTcp,
                    {"[ match name tcp rev 0 info 0000ffff901f901f00000000 ]"},
                    {"[ counter pkts 0 bytes 0 ]"},
                    {"[ target name DNAT rev 0 info 0100000003000000ac1a4002ac1a400200500050 ]"}}),
            Entry("172.26.64.2"));
}

TEST(DnatRule, IsReadFromNft) {
  EXPECT_EQ(Parsed({kProtocol,
                    kTcp,
                    kPort,
                    k8080,
                    {"[ immediate reg 1 0x02401aac ]"},
                    {"[ immediate reg 2 0x00005000 ]"},
                    {"[ nat dnat ip addr_min reg 1 proto_min reg 2 flags 0x2 ]"}}),
            Entry("172.26.64.2"));
  EXPECT_EQ(Parsed({kProtocol,
                    kTcp,
                    kPort,
                    k8080,
                    {"[ immediate reg 1 0x260000fd 0x00000000 0x00000000 0x02000000 ]"},
                    {"[ immediate reg 2 0x00005000 ]"},
                    {"[ nat dnat ip6 addr_min reg 1 proto_min reg 2 flags 0x2 ]"}},
                   Family::kIpv6),
            Entry("fd00:26::2"));
}

TEST(DnatRule, IsNoneIfAnythingIsMissing) {
  EXPECT_EQ(Parsed({}), std::nullopt);
  EXPECT_EQ(Parsed({kProtocol, kTcp, kPort, k8080, {"[ immediate reg 0 jump -> MARK ]"}}),
            std::nullopt);
  EXPECT_EQ(Parsed({kProtocol, kTcp, kPort, k8080, {"[ target name DNAT rev 2 info 03 ]"}}),
            std::nullopt);
  EXPECT_EQ(Parsed({{"[ ]"}, {""}, {"[ target ]"}, {"[ nat dnat ]"}, {"[ immediate ]"}}),
            std::nullopt);
}

}  // namespace
}  // namespace nomad_bridge::test
