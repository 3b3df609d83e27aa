#include "firewall/table.h"
#include "tests/support/test.h"

namespace nomad_bridge::firewall {
namespace {

std::vector<std::string> SetsOf(const std::vector<nft::Element>& elements) {
  std::vector<std::string> sets;
  sets.reserve(elements.size());
  for (const nft::Element& element : elements) {
    sets.push_back(element.set);
  }
  return sets;
}

TEST(AddressPolicy, IsInTheSetsOfItsOptions) {
  const Ip ip = Ip::Parse("10.0.0.2").value();
  EXPECT_THAT(SetsOf(Elements({{.address = ip}}, "c")), ElementsAre("alloc4"));
  EXPECT_THAT(SetsOf(Elements({{.address = ip, .masquerade = true}}, "c")),
              ElementsAre("alloc4", "masq4"));
  EXPECT_THAT(SetsOf(Elements({{.address = ip, .masquerade_lan = true}}, "c")),
              ElementsAre("alloc4", "masqlan4"));
  EXPECT_THAT(SetsOf(Elements({{.address = ip, .snat = true, .masquerade_all = true}}, "c")),
              ElementsAre("alloc4", "snat4", "masqall4"));
  EXPECT_THAT(SetsOf(Elements({{.address = ip, .inbound = Inbound::kPublished}}, "c")),
              ElementsAre("alloc4", "closed4"));
}

TEST(AddressPolicy, IsInTheIpv6SetsForAnIpv6Address) {
  const std::vector<nft::Element> elements = Elements(
      {{.address = Ip::Parse("fd00::2").value(), .masquerade = true, .snat = true}}, "veth1 x");
  EXPECT_THAT(SetsOf(elements), ElementsAre("alloc6", "masq6", "snat6"));
  EXPECT_THAT(elements[0].key, ElementsAre(0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2));
  EXPECT_EQ(elements[0].owner(), "veth1");
  EXPECT_TRUE(elements[0].data.empty());
}

TEST(BridgeElement, IsSharedAndPaddedWithZeros) {
  const nft::Element bridge = BridgeElement("nomad");
  EXPECT_EQ(bridge.set, "bridges");
  EXPECT_EQ(bridge.owner(), "");
  EXPECT_THAT(bridge.key, ElementsAre('n', 'o', 'm', 'a', 'd', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

}  // namespace
}  // namespace nomad_bridge::firewall
