#include "ipam/range.h"
#include "tests/support/named.h"
#include "tests/support/test.h"
#include "tests/unit/ipam_names.h"

namespace nomad_bridge::ipam {
namespace {

// 10.0.0.0/24 with what `spec` adds.
RangeSpec With(RangeSpec spec) {
  return Spec("10.0.0.0/24", std::move(spec));
}

constexpr const char* kUsable = "10.0.0.1 to 10.0.0.254";  // of it

Range Only(const RangeSpec& spec) {
  return MakeRangeSets({{spec}}).at(0).at(0);
}

Error Refusal(const std::vector<std::vector<RangeSpec>>& specs) {
  return Caught([&] { return MakeRangeSets(specs); });
}

TEST(Range, DefaultsToAllButNetworkAndBroadcastInIpv4) {
  const Range range = Only(Spec("172.26.64.0/20"));
  EXPECT_EQ(range.first, At("172.26.64.1"));
  EXPECT_EQ(range.last, At("172.26.79.254"));
  EXPECT_EQ(range.gateway, At("172.26.64.1"));
}

TEST(Range, DefaultsToAllUpToTheLastAddressInIpv6) {
  const Range range = Only(Spec("fd00:a::/64"));
  EXPECT_EQ(range.first, At("fd00:a::1"));
  EXPECT_EQ(range.last, At("fd00:a::ffff:ffff:ffff:ffff"));
  EXPECT_EQ(range.gateway, At("fd00:a::1"));
}

TEST(Range, OffersEverythingInsideButTheGateway) {
  const Range range = Only(Spec("10.0.0.0/29"));
  EXPECT_FALSE(range.Offers(At("10.0.0.0")));
  EXPECT_FALSE(range.Offers(At("10.0.0.1"))) << "the gateway";
  EXPECT_TRUE(range.Offers(At("10.0.0.2")));
  EXPECT_TRUE(range.Offers(At("10.0.0.6")));
  EXPECT_FALSE(range.Offers(At("10.0.0.7"))) << "the broadcast address";
  EXPECT_FALSE(range.Offers(At("fd00::2")));
}

TEST(Range, HasTheStartEndAndGatewayOfTheConfig) {
  const Range range =
      Only(With({.start = At("10.0.0.10"), .end = At("10.0.0.20"), .gateway = At("10.0.0.254")}));
  EXPECT_EQ(range.first, At("10.0.0.10"));
  EXPECT_EQ(range.last, At("10.0.0.20"));
  EXPECT_EQ(range.gateway, At("10.0.0.254"));
}

TEST(Range, NeverHoldsNetworkOrBroadcastEvenIfTheConfigNamesThem) {
  RangeSpec spec = With({.start = At("10.0.0.0"), .end = At("10.0.0.255")});
  EXPECT_EQ(Only(spec).first, At("10.0.0.1"));
  EXPECT_EQ(Only(spec).last, At("10.0.0.254"));
  spec.end = At("10.0.0.0");
  EXPECT_THAT(Refusal({{spec}}).details(), HasSubstr(kUsable));
}

struct Refused : test::Named {
  RangeSpec spec;
  std::string key;
  std::string details;
};

class RangeRefusal : public ::testing::TestWithParam<Refused> {};

TEST_P(RangeRefusal, NamesTheKeyTheValueAndWhatIsAllowed) {
  EXPECT_THAT(Refusal({{GetParam().spec}}),
              IsError(Code::kInvalidConfig,
                      HasSubstr("'ipam.ranges[0][0]." + GetParam().key + "'"),
                      HasSubstr(GetParam().details)));
}

const Refused kRefused[] = {
    {"TooSmall", Spec("10.0.0.0/31"), "subnet", "up to 30"},
    {"TooSmallIpv6", Spec("fd00::/127"), "subnet", "up to 126"},
    {"HostBits", Spec("10.0.0.5/24"), "subnet", "10.0.0.0/24"},
    {"HostBitsIpv6", Spec("fd00::5/64"), "subnet", "fd00::/64"},
    {"StartOutside", With({.start = At("10.0.1.5")}), "rangeStart", "10.0.0.0/24"},
    {"EndOutside", With({.end = At("9.255.255.255")}), "rangeEnd", "10.0.0.0/24"},
    {"EndOfAnotherFamily", With({.end = At("fd00::1")}), "rangeEnd", "10.0.0.0/24"},
    {"GatewayOutside", With({.gateway = At("10.0.1.1")}), "gateway", "10.0.0.0/24"},
    {"GatewayIsTheNetwork", With({.gateway = At("10.0.0.0")}), "gateway", kUsable},
    {"GatewayIsBroadcast", With({.gateway = At("10.0.0.255")}), "gateway", kUsable},
    {"StartAfterEnd",
     With({.start = At("10.0.0.9"), .end = At("10.0.0.8")}),
     "rangeStart",
     "10.0.0.8"},
};

INSTANTIATE_TEST_SUITE_P(Every, RangeRefusal, ::testing::ValuesIn(kRefused), test::kNameOf);

TEST(RangeSets, KeepTheirOrderAndShape) {
  const std::vector<RangeSet> sets =
      MakeRangeSets({{Spec("10.0.0.0/24"), Spec("10.0.1.0/24")}, {Spec("fd00::/64")}});
  ASSERT_EQ(sets.size(), 2U);
  ASSERT_EQ(sets[0].size(), 2U);
  EXPECT_EQ(sets[0][1].gateway, At("10.0.1.1"));
  EXPECT_EQ(sets[1][0].first, At("fd00::1"));
}

TEST(RangeSets, RefuseAnEmptySet) {
  EXPECT_THAT(Refusal({{Spec("10.0.0.0/24")}, {}}),
              IsError(Code::kInvalidConfig, HasSubstr("set 1")));
}

TEST(RangeSets, RefuseTwoFamiliesInOneSet) {
  RangeSpec second = Spec("fd00::/64");
  second.path = "ipam.ranges[0][1]";
  EXPECT_THAT(Refusal({{Spec("10.0.0.0/24"), second}}).msg(),
              HasSubstr("'ipam.ranges[0][1].subnet': 'fd00::/64'"));
}

TEST(RangeSets, RefuseOverlapsInASetAndBetweenSets) {
  RangeSpec inner = Spec("10.0.0.128/25");
  inner.path = "ipam.ranges[1][0]";
  for (const auto& specs : std::vector<std::vector<std::vector<RangeSpec>>>{
           {{Spec("10.0.0.0/24"), inner}}, {{Spec("10.0.0.0/24")}, {inner}}}) {
    EXPECT_THAT(Refusal(specs),
                IsError(Code::kInvalidConfig,
                        HasSubstr("'ipam.ranges[0][0]' and 'ipam.ranges[1][0]'"),
                        HasSubstr("10.0.0.129 to 10.0.0.254")));
  }
}

TEST(RangeSets, MayBeTwoPartsOfOneSubnet) {
  const RangeSpec low = With({.end = At("10.0.0.99")});
  RangeSpec high = With({.start = At("10.0.0.100")});
  EXPECT_EQ(MakeRangeSets({{low, high}}).at(0).size(), 2U);
  high.start = At("10.0.0.99");
  EXPECT_EQ(Refusal({{low, high}}).code(), Code::kInvalidConfig);
}

TEST(Range, CountsWhatItOffers) {
  EXPECT_EQ(CountOffered(Only(Spec("172.26.64.0/20"))), 4093U);
  EXPECT_EQ(CountOffered(Only(Spec("10.0.0.0/8"))), (1U << 24) - 3);
  EXPECT_EQ(CountOffered(Only(With({.start = At("10.0.0.10"), .end = At("10.0.0.19")}))), 10U);
  EXPECT_EQ(CountOffered(Only(With({.start = At("10.0.0.10"), .end = At("10.0.0.10")}))), 1U);
  EXPECT_EQ(CountOffered(Only(Spec("fd00::/120"))), 254U);
  EXPECT_EQ(CountOffered(Only(Spec("fd00::/48"))), std::uint64_t{1} << 63) << "at most";
}

}  // namespace
}  // namespace nomad_bridge::ipam
