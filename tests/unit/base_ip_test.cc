#include "tests/support/config.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

TEST(Ip, ParsesBothFamiliesAndPrintsThemBack) {
  EXPECT_EQ(Ip::Parse("172.26.64.1")->Text(), "172.26.64.1");
  EXPECT_EQ(Ip::Parse("FD00:0:0::5")->Text(), "fd00::5");
  EXPECT_EQ(Ip::Parse("::ffff:10.0.0.1")->Text(), "10.0.0.1");
}

TEST(Ip, RefusesAnInvalidString) {
  for (const std::string& text :
       test::Words("10.0.0 10.0.0.256 010.0.0.1 10.0.0.01 10.0.0.-1 10.0.0.+1 10..0.1 10.0.0. "
                   "10.0.0.1. 10.0.0.1.1 10.0.0.0x1 fd00::1%eth0 host")) {
    EXPECT_FALSE(Ip::Parse(text)) << text;
  }
  for (const char* const text : {"", " 10.0.0.1", "10.0.0.1 "}) {
    EXPECT_FALSE(Ip::Parse(text)) << Quoted(text);
  }
}

TEST(Ip, PlusCarriesAcrossBytes) {
  EXPECT_EQ(Ip::Parse("10.0.255.255")->Plus(1).Text(), "10.1.0.0");
  EXPECT_EQ(Ip::Parse("fd00::ffff:ffff:ffff:ffff")->Plus(1).Text(), "fd00:0:0:1::");
  EXPECT_EQ(Ip::Parse("fd00::1")->Plus(~0ULL).Text(), "fd00:0:0:1::");
}

TEST(Ip, OrdersByFamilyThenNumber) {
  EXPECT_LT(*Ip::Parse("9.0.0.1"), *Ip::Parse("10.0.0.1"));
  EXPECT_LT(*Ip::Parse("255.255.255.255"), *Ip::Parse("::1"));
}

TEST(Cidr, KeepsHostBitsAndKnowsItsEnds) {
  const Cidr cidr = *Cidr::Parse("172.26.70.5/20");
  EXPECT_EQ(cidr.Text(), "172.26.70.5/20");
  EXPECT_EQ(cidr.Network().Text(), "172.26.64.0");
  EXPECT_EQ(cidr.Last().Text(), "172.26.79.255");
}

TEST(Cidr, RefusesAnInvalidString) {
  for (const char* const text :
       {"10.0.0.1", "10.0.0.1/", "10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/8x", "fd00::/129", "/8"}) {
    EXPECT_FALSE(Cidr::Parse(text)) << text;
  }
}

TEST(Cidr, OverlapsWithWhatItContainsAndWithWhatContainsIt) {
  const Cidr wide = *Cidr::Parse("10.8.0.0/16");
  const Cidr narrow = *Cidr::Parse("10.8.9.0/24");
  EXPECT_TRUE(wide.Overlaps(narrow));
  EXPECT_TRUE(narrow.Overlaps(wide));
  EXPECT_FALSE(narrow.Overlaps(*Cidr::Parse("10.8.10.0/24")));
}

TEST(Cidr, ContainsOnlyItsOwnFamily) {
  EXPECT_TRUE(Cidr::Parse("10.0.0.0/8")->Contains(*Ip::Parse("10.255.255.255")));
  EXPECT_FALSE(Cidr::Parse("10.0.0.0/8")->Contains(*Ip::Parse("11.0.0.0")));
  EXPECT_FALSE(Cidr::Parse("0.0.0.0/0")->Contains(*Ip::Parse("fd00::1")));
}

TEST(Mac, ParsesAndPrints) {
  EXPECT_EQ(Mac::Parse("02:42:AC:1a:40:02")->Text(), "02:42:ac:1a:40:02");
  EXPECT_EQ(Mac::Parse("02-42-ac-1a-40-02")->Text(), "02:42:ac:1a:40:02");
  for (const char* const text :
       {"", "02:42:ac:1a:40", "02:42:ac:1a:40:0g", "02:42:ac:1a:40:02:03", "024:2ac:1a:40:02"}) {
    EXPECT_FALSE(Mac::Parse(text)) << text;
  }
}

TEST(Mac, IsDerivedFromTheAddressAndUnicast) {
  EXPECT_EQ(Mac::For(*Ip::Parse("172.26.64.2")).Text(), "0a:58:ac:1a:40:02");
  EXPECT_EQ(Mac::For(*Ip::Parse("fd00::2")), Mac::For(*Ip::Parse("fd00:0::2")));
  EXPECT_NE(Mac::For(*Ip::Parse("fd00::2")), Mac::For(*Ip::Parse("fd00::3")));
  EXPECT_TRUE(Mac::ForName("nomad").IsUnicast());
}

}  // namespace
}  // namespace nomad_bridge
