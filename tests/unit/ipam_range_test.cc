#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "ipam/range.h"
#include "tests/support/caught.h"

namespace nomad_bridge::ipam {
namespace {

using ::testing::HasSubstr;

Ip At(const std::string& text) {
  return Ip::Parse(text).value();
}

RangeSpec Spec(const std::string& subnet) {
  return {.path = "ipam.ranges[0][0]", .subnet = Cidr::Parse(subnet).value()};
}

Range Only(const RangeSpec& spec) {
  return MakeRangeSets({{spec}}).at(0).at(0);
}

Error Refusal(const std::vector<std::vector<RangeSpec>>& specs) {
  return test::Caught([&] { return MakeRangeSets(specs); });
}

TEST(Range, OfIpv4DefaultsToAllButNetworkAndBroadcast) {
  const Range range = Only(Spec("172.26.64.0/20"));
  EXPECT_EQ(range.first, At("172.26.64.1"));
  EXPECT_EQ(range.last, At("172.26.79.254"));
  EXPECT_EQ(range.gateway, At("172.26.64.1"));
}

TEST(Range, OfIpv6DefaultsToAllUpToTheLastAddress) {
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
  RangeSpec spec = Spec("10.0.0.0/24");
  spec.start = At("10.0.0.10");
  spec.end = At("10.0.0.20");
  spec.gateway = At("10.0.0.254");
  const Range range = Only(spec);
  EXPECT_EQ(range.first, At("10.0.0.10"));
  EXPECT_EQ(range.last, At("10.0.0.20"));
  EXPECT_EQ(range.gateway, At("10.0.0.254"));
}

TEST(Range, NeverHoldsNetworkOrBroadcastEvenIfTheConfigNamesThem) {
  RangeSpec spec = Spec("10.0.0.0/24");
  spec.start = At("10.0.0.0");
  spec.end = At("10.0.0.255");
  EXPECT_EQ(Only(spec).first, At("10.0.0.1"));
  EXPECT_EQ(Only(spec).last, At("10.0.0.254"));
  spec.end = At("10.0.0.0");
  EXPECT_THAT(Refusal({{spec}}).details(), HasSubstr("10.0.0.1 to 10.0.0.254"));
}

struct Case {
  std::string name;
  RangeSpec spec;
  std::string key;
  std::string details;
};

class RangeRefusal : public ::testing::TestWithParam<Case> {};

TEST_P(RangeRefusal, NamesTheKeyTheValueAndWhatIsAllowed) {
  const Error error = Refusal({{GetParam().spec}});
  EXPECT_EQ(error.code(), Code::kInvalidConfig);
  EXPECT_THAT(error.msg(), HasSubstr("'ipam.ranges[0][0]." + GetParam().key + "'"));
  EXPECT_THAT(error.details(), HasSubstr(GetParam().details));
}

Case Changed(const std::string& name,
             const std::string& subnet,
             const std::function<void(RangeSpec&)>& change,
             const std::string& key,
             const std::string& details) {
  Case result{.name = name, .spec = Spec(subnet), .key = key, .details = details};
  change(result.spec);
  return result;
}

const auto kUnchanged = [](RangeSpec&) {};

INSTANTIATE_TEST_SUITE_P(
    Every,
    RangeRefusal,
    ::testing::Values(Changed("TooSmall", "10.0.0.0/31", kUnchanged, "subnet", "up to 30"),
                      Changed("TooSmallIpv6", "fd00::/127", kUnchanged, "subnet", "up to 126"),
                      Changed("HostBits", "10.0.0.5/24", kUnchanged, "subnet", "10.0.0.0/24"),
                      Changed("HostBitsIpv6", "fd00::5/64", kUnchanged, "subnet", "fd00::/64"),
                      Changed(
                          "StartOutside",
                          "10.0.0.0/24",
                          [](RangeSpec& spec) { spec.start = At("10.0.1.5"); },
                          "rangeStart",
                          "10.0.0.0/24"),
                      Changed(
                          "EndOutside",
                          "10.0.0.0/24",
                          [](RangeSpec& spec) { spec.end = At("9.255.255.255"); },
                          "rangeEnd",
                          "10.0.0.0/24"),
                      Changed(
                          "EndOfAnotherFamily",
                          "10.0.0.0/24",
                          [](RangeSpec& spec) { spec.end = At("fd00::1"); },
                          "rangeEnd",
                          "10.0.0.0/24"),
                      Changed(
                          "GatewayOutside",
                          "10.0.0.0/24",
                          [](RangeSpec& spec) { spec.gateway = At("10.0.1.1"); },
                          "gateway",
                          "10.0.0.0/24"),
                      Changed(
                          "GatewayIsTheNetwork",
                          "10.0.0.0/24",
                          [](RangeSpec& spec) { spec.gateway = At("10.0.0.0"); },
                          "gateway",
                          "10.0.0.1 to 10.0.0.254"),
                      Changed(
                          "GatewayIsBroadcast",
                          "10.0.0.0/24",
                          [](RangeSpec& spec) { spec.gateway = At("10.0.0.255"); },
                          "gateway",
                          "10.0.0.1 to 10.0.0.254"),
                      Changed(
                          "StartAfterEnd",
                          "10.0.0.0/24",
                          [](RangeSpec& spec) {
                            spec.start = At("10.0.0.9");
                            spec.end = At("10.0.0.8");
                          },
                          "rangeStart",
                          "10.0.0.8")),
    [](const ::testing::TestParamInfo<Case>& that) { return that.param.name; });

TEST(RangeSets, KeepTheirOrderAndShape) {
  const std::vector<RangeSet> sets =
      MakeRangeSets({{Spec("10.0.0.0/24"), Spec("10.0.1.0/24")}, {Spec("fd00::/64")}});
  ASSERT_EQ(sets.size(), 2U);
  ASSERT_EQ(sets[0].size(), 2U);
  EXPECT_EQ(sets[0][1].gateway, At("10.0.1.1"));
  EXPECT_EQ(sets[1][0].first, At("fd00::1"));
}

TEST(RangeSets, RefuseAnEmptySet) {
  const Error error = Refusal({{Spec("10.0.0.0/24")}, {}});
  EXPECT_EQ(error.code(), Code::kInvalidConfig);
  EXPECT_THAT(error.msg(), HasSubstr("set 1"));
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
    const Error error = Refusal(specs);
    EXPECT_EQ(error.code(), Code::kInvalidConfig);
    EXPECT_THAT(error.msg(), HasSubstr("'ipam.ranges[0][0]' and 'ipam.ranges[1][0]'"));
    EXPECT_THAT(error.details(), HasSubstr("10.0.0.129 to 10.0.0.254"));
  }
}

TEST(RangeSets, MayBeTwoPartsOfOneSubnet) {
  RangeSpec low = Spec("10.0.0.0/24");
  low.end = At("10.0.0.99");
  RangeSpec high = Spec("10.0.0.0/24");
  high.start = At("10.0.0.100");
  EXPECT_EQ(MakeRangeSets({{low, high}}).at(0).size(), 2U);
  high.start = At("10.0.0.99");
  EXPECT_EQ(Refusal({{low, high}}).code(), Code::kInvalidConfig);
}

}  // namespace
}  // namespace nomad_bridge::ipam
