#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

TEST(CutUtf8, NeverEndsInsideACharacter) {
  EXPECT_EQ(CutUtf8("aé", 2), "a");
  EXPECT_EQ(CutUtf8("aé", 3), "aé");
  EXPECT_EQ(CutUtf8("€uro", 2), "");
  EXPECT_EQ(CutUtf8("short", 100), "short");
}

TEST(Printable, KeepsUtf8AndReplacesControlCharactersAndQuotes) {
  EXPECT_EQ(Printable("job=zürich €"), "job=zürich €");
  EXPECT_EQ(Printable("a\nb\tc\x7f"), "a b c ");
  EXPECT_EQ(Printable("say \"hi\" \\ there"), "say 'hi' ' there");
  EXPECT_EQ(Printable("\xc2\x85"), " ");  // a C1 control character
}

TEST(Printable, ReplacesEveryByteOfInvalidUtf8) {
  EXPECT_EQ(Printable("\xff\xfe"), "??");
  EXPECT_EQ(Printable("a\xc3"), "a?");               // cut off
  EXPECT_EQ(Printable("\xc0\xaf"), "??");            // overlong
  EXPECT_EQ(Printable("\xed\xa0\x80"), "???");       // surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "????");  // beyond U+10FFFF
}

TEST(SplitFields, ReturnsTheTextBetweenSeparators) {
  EXPECT_THAT(SplitFields("one\ntwo three\n", "\n"), ElementsAre("one", "two three"));
  EXPECT_THAT(SplitFields("\t nameserver  192.0.2.1", " \t"),
              ElementsAre("nameserver", "192.0.2.1"));
  EXPECT_THAT(SplitFields("\n\n", "\n"), IsEmpty());
  EXPECT_THAT(SplitFields("", " "), IsEmpty());
}

TEST(TakeUntil, LeavesTheTextAfterTheSeparator) {
  std::string_view rest = "a,,b";
  EXPECT_EQ(TakeUntil(',', rest), "a");
  EXPECT_EQ(TakeUntil(',', rest), "");
  EXPECT_EQ(TakeUntil(',', rest), "b");
  EXPECT_EQ(rest, "");
  EXPECT_EQ(TakeUntil(',', rest), "");
}

TEST(FindNumber, TakesNothingButANumberInRange) {
  EXPECT_EQ(FindNumber<std::uint16_t>("65535"), 65535);
  EXPECT_EQ(FindNumber<int>("-1"), -1);
  for (const char* const text : {"", "65536", "-1", "+1", " 1", "1 ", "0x1", "1.0"}) {
    EXPECT_EQ(FindNumber<std::uint16_t>(text), std::nullopt) << text;
  }
}

TEST(ShellWord, IsOneWordThatAShellDoesNotExpand) {
  EXPECT_EQ(ShellWord("/opt/cni/bin"), "/opt/cni/bin");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("$(id) `id` $HOME *"), "'$(id) `id` $HOME *'");
  EXPECT_EQ(ShellWord("it's"), R"('it'\''s')");
  EXPECT_EQ(ShellWord("a\nb\x1b c\xff"), "'a?b? c?'");
}

TEST(ValidUtf8, ReplacesInvalidUtf8AndKeepsTheRest) {
  EXPECT_EQ(ValidUtf8("a\n\"\\\x1b ü€"), "a\n\"\\\x1b ü€");
  EXPECT_EQ(ValidUtf8("a\xff\xe2\x82"), "a???");
}

TEST(IsUtf8, KnowsWellFormedText) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("plain, zürich, €, 😀"));
  EXPECT_FALSE(IsUtf8("\x80"));
}

TEST(Lower, ChangesAsciiOnly) {
  EXPECT_EQ(Lower("HostPÖRT"), "hostpÖrt");
}

TEST(EqualIgnoringCase, KnowsAsciiOnly) {
  EXPECT_TRUE(EqualIgnoringCase("HostPort", "hostpOrT"));
  EXPECT_FALSE(EqualIgnoringCase("hostport", "hostports"));
  EXPECT_FALSE(EqualIgnoringCase("PÖRT", "pört"));
}

TEST(StableHash, NeverChanges) {
  // Links on running nodes are named after it.
  EXPECT_EQ(Hex(StableHash(""), 16), "efd01f60ba992926");
  EXPECT_EQ(Hex(StableHash("nomad"), 16), "4f1bce71bfb5362e");
}

TEST(Hex, PrintsTheLowestDigits) {
  EXPECT_EQ(Hex(0xabcdef, 4), "cdef");
}

}  // namespace
}  // namespace nomad_bridge
