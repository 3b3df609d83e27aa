// The node's tables as values, and what the table of all sets says about an element.
#include <span>
#include <variant>

#include "firewall/forward_hook.h"
#include "firewall/port_filter.h"
#include "firewall/table.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/tables.h"
#include "portmap/rules.h"
#include "tests/support/test.h"

namespace nomad_bridge::rules {
namespace {

using enum cni::Part;

std::string Described(const std::string& text) {
  return text;
}
std::string Described(std::uint32_t number) {
  return Cat(number);
}
template <typename Byte>
std::string Described(const std::vector<Byte>& bytes) {
  std::string text;
  for (const Byte byte : bytes) {
    text += Hex(static_cast<std::uint64_t>(byte), 2);
  }
  return text;
}

std::string Described(const nft::Chain& chain) {
  std::string text = Cat("chain ", chain.name);
  if (chain.hook) {
    text += Format(" {} {} {} {}",
                   chain.hook->type,
                   static_cast<int>(chain.hook->point),
                   chain.hook->priority,
                   chain.hook->drops ? "drop" : "accept");
  }
  for (const nft::Rule& rule : chain.rules) {
    text += Cat("\nrule ", rule.comment());
    for (const nft::Expression& expression : rule.expressions()) {
      text += Cat(" [", expression.kind);
      for (const auto& [attribute, value] : expression.attributes) {
        const auto describe = [](const auto& any) { return Described(any); };
        text += Format(" {}={}", attribute, std::visit(describe, value));
      }
    }
  }
  return text + '\n';
}

// Describes only values, no matter how a version of libnftnl prints or sends them.
std::string Described(const firewall::Tables& tables) {
  std::string text;
  for (const nft::Table& table : tables) {
    text += Cat("table ", nft::Text(table.id), '\n');
    for (const nft::Set& set : table.sets) {
      text += Format(
          "set {} {} : {} {}\n", set.name, Described(set.key), Described(set.data), set.flags);
    }
    for (const nft::Chain& chain : table.chains) {
      text += Described(chain);
    }
  }
  return text;
}

TEST(TablesRevision, IsTheHashOfTheTables) {
  // With a policy, for the chains and maps that all policies have, and an allocation, for the rules
  // that steps become.
  const policy::Program program(
      {.policies = {{.name = "closed", .selector = {.nomad_namespace = "*"}}}});
  const Kinds kinds = {{"closed", {.nomad_namespace = "prod"}}};
  const std::string text = Described(NodeTables(
      firewall::ForwardHook().accept_mark_bit, true, {.program = program, .kinds = kinds}));
  EXPECT_EQ(kTablesRevision, Hex(StableHash(text), 16))
      << "a set, a chain or a rule has changed: this is what kTablesRevision is now";
}

firewall::Tables WithoutPolicies(int accept_mark_bit, bool has_port_filter) {
  return NodeTables(accept_mark_bit, has_port_filter, {.program = {}, .kinds = {}});
}

TEST(NodeTables, HaveEachContributorsSetsAndChains) {
  const firewall::Tables tables = WithoutPolicies(12, true);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_NE(tables[0].FindSet("alloc6"), nullptr);
  EXPECT_NE(tables[0].FindSet("hostip4"), nullptr);
  EXPECT_NE(tables[0].FindChain("hostports"), nullptr);
  EXPECT_NE(tables[1].FindSet("source6"), nullptr);
  EXPECT_EQ(WithoutPolicies(12, false).size(), 1U);
}

TEST(NodeTables, HaveTheRulesOfAllContributorsInAChainThatTheyShare) {
  const firewall::Tables alone = firewall::Assemble({&firewall::kForwarding}, 12);
  const firewall::Tables all = WithoutPolicies(12, false);
  const nft::Chain& shorter = *alone[0].FindChain("postrouting");
  const nft::Chain& chain = *all[0].FindChain("postrouting");
  EXPECT_EQ(chain.hook, shorter.hook);
  ASSERT_GT(chain.rules.size(), shorter.rules.size());
  EXPECT_TRUE(std::ranges::equal(shorter.rules, std::span(chain.rules).first(shorter.rules.size())))
      << "the earlier contributor's are not the first";
}

nft::Element ElementIn(const std::string& set) {
  return {.set = set};
}

TEST(PartsOf, ReturnsThePartsOfTheElementsSet) {
  EXPECT_THAT(PartsOf(ElementIn("alloc4")), ElementsAre(kForward));
  EXPECT_THAT(PartsOf(ElementIn("ingress_allowed")), ElementsAre(kForward));
  EXPECT_THAT(PartsOf(ElementIn("comes_by6")), ElementsAre(kLink, kMasquerade, kForward, kPorts));
  EXPECT_THAT(PartsOf(ElementIn("masqlan6")), ElementsAre(kMasquerade));
  EXPECT_THAT(PartsOf(ElementIn("snat6")), ElementsAre(kPorts));
  EXPECT_THAT(PartsOf(ElementIn("hostip6")), ElementsAre(kPorts));
  EXPECT_THAT(PartsOf(ElementIn("bridges")), ElementsAre(kLink, kMasquerade, kForward, kPorts));
  EXPECT_THAT(PartsOf(firewall::PortElement("isolated", "veth1", "veth1")), ElementsAre(kForward));
  for (const nft::Element& element : firewall::Elements({.port = "veth1"}, "veth1")) {
    EXPECT_THAT(PartsOf(element), ElementsAre(kLink)) << element.set;
  }
}

TEST(PartsOf, ReturnsNothingForAForeignSet) {
  EXPECT_THAT(PartsOf(ElementIn("of_another_release")), IsEmpty());
  EXPECT_THAT(PartsOf(ElementIn("isolated")), IsEmpty()) << "that is in the other table";
  EXPECT_EQ(AddressOf(ElementIn("of_another_release")), std::nullopt);
  EXPECT_EQ(FindIfname(ElementIn("of_another_release")), std::nullopt);
}

TEST(AddressOf, ReturnsTheKeyOrTheTargetOfAPort) {
  const Ip ip = Ip::Parse("fd00::2").value();
  EXPECT_EQ(AddressOf(firewall::Elements({{.address = ip}}, "veth1").front()), ip);
  const portmap::DnatEntry port = {.host_ip = Ip::Parse("2001:db8::1"), .container_ip = ip};
  EXPECT_EQ(AddressOf(portmap::Elements({port}, "veth1").front()), ip);
}

TEST(AddressOf, ReturnsNothingForAnElementOfAnInterface) {
  std::vector<nft::Element> elements =
      firewall::Elements({.port = "veth1", .addresses = {Ip()}}, "veth1");
  elements.push_back(firewall::BridgeElement("veth1"));
  elements.push_back(firewall::ElementsFor(firewall::Ingress::kSameBridge, "veth1").add.back());
  for (const nft::Element& element : elements) {
    EXPECT_EQ(AddressOf(element), std::nullopt) << element.set;
    EXPECT_EQ(FindIfname(element), "veth1") << element.set;
    EXPECT_EQ(portmap::DescribeKey(element), "") << element.set;
  }
}

}  // namespace
}  // namespace nomad_bridge::rules
