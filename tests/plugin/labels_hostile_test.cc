// Labels that want to break something: whatever is in them, rules, links, files and outputs stay
// readable to every tool.
#include <regex>

#include "tests/plugin/labels_world.h"

namespace nomad_bridge::test {
namespace {

struct Hostile : Named {
  std::string value;
  bool is_utf8 = true;
};

std::string Repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) {
    all += text;
  }
  return all;
}

std::vector<Hostile> Values() {
  return {{"DoubleQuotes", R"(a"b" comment "c)"},
          {"SingleQuotes", "it's 'quoted'"},
          {"Newlines", "one\ntwo\r\nthree\n\n"},
          {"Tabs", "a\tb\vc\fd"},
          {"Backslashes", R"(\ \\ \n \" \x41 \u0041 \)"},
          {"ControlCharacters", "\x01\x02\x1b[31mred\x1b[0m\x7f"},
          {"C1Controls", "\xc2\x80\xc2\x9b"},
          {"NftMetacharacters", "} ; flush ruleset ; # { @set $var * - 1.2.3.4/8 : accept"},
          {"ShellMetacharacters", "$(reboot) `id` | & > /tmp/x && ${HOME} !! ~ *"},
          {"JsonMetacharacters", R"({"a":[1,2]},"b":null)"},
          {"Percents", "%s %n %d %%"},
          {"Spaces", "  two  words  "},
          {"Equals", "=a==b="},
          {"FakeIdentity", "x nomad-bridge net=other id=other if=eth1 alloc=other"},
          {"Umlauts", "Rechnungsprüfung – größer als 5 €"},
          {"Emoji", "\xf0\x9f\x9a\x80\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80"},
          {"RightToLeft",
           "\xe2\x80\xae"
           "abc\xe2\x80\xac"},
          {"LongAscii", std::string(4096, 'x')},
          {"LongTwoByteCharacters", Repeat("ü", 2048)},
          {"LongThreeByteCharacters", "a" + Repeat("€", 1365)},
          {"LongFourByteCharacters", "ab" + Repeat("\xf0\x9f\x9a\x80", 1024)},
          {"BrokenByte",
           "a\xff"
           "b",
           false},
          {"BrokenContinuation", "a\x80\xbf", false},
          {"BrokenTruncated", "a\xe2\x82", false},
          {"BrokenOverlong", "\xc0\xaf\xe0\x80\xaf", false},
          {"BrokenSurrogate", "\xed\xa0\x80", false},
          {"BrokenLong", Repeat("\xfe", 4096), false}};
}

class HostileLabel : public LabelsWorld, public ::testing::WithParamInterface<Hostile> {
 protected:
  // The whole ruleset loaded into another machine is the same there.
  void ExpectRulesetLoads() {
    static_cast<void>(host().Json({"nft", "-j", "list", "ruleset"}));  // throws if it is no JSON
    const std::string listed = host().Must({"nft", "-s", "list", "ruleset"});
    outside().Nft(listed);
    EXPECT_EQ(outside().Must({"nft", "-s", "list", "ruleset"}), listed);
    outside().Must({"nft", "flush", "ruleset"});
  }

  void ExpectTextsAreWithinTheirLimits() {
    EXPECT_LE(Alias().size(), 255U);
    EXPECT_THAT(Alias(), StartsWith("nomad-bridge net=nomad id=web if=eth0"));
    for (const std::string set : {"alloc4", "port6"}) {
      EXPECT_LE(Comment(set).size(), 128U);
      EXPECT_THAT(Comment(set), StartsWith(HostVeth() + " id=web"));
    }
    for (const std::string& text : {Alias(), Comment("port4")}) {
      EXPECT_EQ(text.find_first_of("\n\r\t\"\\\x1b"), std::string::npos) << text;
    }
    // One line per link, whatever is in it.
    const std::string links = host().Must({"ip", "-d", "-o", "link", "show", "master", "nomad"});
    EXPECT_EQ(std::count(links.begin(), links.end(), '\n'), 1);
  }

  // Once somebody else has changed the ruleset, CHECK compares every element with the record.
  void ExpectNothingToRepair(const json& config, const json& add) {
    host().Must({"nft", "add", "table", "inet", "somebody"});
    host().Must({"nft", "delete", "table", "inet", "somebody"});
    EXPECT_THAT(MustCheck(config, add, As("web", container())), Err(""));
  }
};

TEST_P(HostileLabel, BreaksNothing) {
  const Snapshot before = [&] {
    Attach(Web(), As("warm-up", container()));
    Detach(Web(), As("warm-up", container()));
    return TakeSnapshot();
  }();
  std::string value = GetParam().value;
  std::erase(value, ';');  // separates pairs
  const json add = Attach(Web(), As("web", container(), Cat("NOMAD_JOB_ID=", value)));
  ASSERT_FALSE(add.is_null());
  ExpectRulesetLoads();
  ExpectTextsAreWithinTheirLimits();
  if (GetParam().is_utf8) {
    EXPECT_EQ(RecordedLabel("NOMAD_JOB_ID"), value) << "the record holds it whole";
  }
  ExpectNothingToRepair(Web(), add);
  Detach(Web(), As("web", container()));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

// By the way of the config there may be anything: semicolons and NUL too.
TEST_P(HostileLabel, BreaksNothingAsAConventionLabelEither) {
  if (!GetParam().is_utf8) {
    // JSON cannot hold it, so the whole config is refused.
    EXPECT_THAT(
        RunPlugin(
            "ADD",
            R"({"cniVersion":"1.0.0","name":"nomad","args":{"cni":{"labels":[{"key":"a","value":")" +
                GetParam().value + R"("}]}}})"),
        Fails(6));
    return;
  }
  json config = Web();
  const std::string value = GetParam().value + std::string("\0;", 2);
  config["args"]["cni"]["labels"] = {{{"key", "NOMAD_JOB_ID"}, {"value", value}},
                                     {{"key", GetParam().value}, {"value", "a key like that"}}};
  const json add = Attach(config, As("web", container()));
  ExpectRulesetLoads();
  ExpectTextsAreWithinTheirLimits();
  EXPECT_EQ(RecordedLabel("NOMAD_JOB_ID"), value);
  EXPECT_EQ(RecordedLabel(GetParam().value), "a key like that");
  ExpectNothingToRepair(config, add);
  Detach(config, As("web", container()));
}

INSTANTIATE_TEST_SUITE_P(Values, HostileLabel, ::testing::ValuesIn(Values()), kNameOf);

class HostileLabels : public LabelsWorld {};

TEST_F(HostileLabels, LeaveTheOwnerReadableUnderLongNames) {
  const std::string id(200, 'c');
  Attach(Web(), As(id, container(), Cat("NOMAD_JOB_ID=", std::string(4096, 'j'))));
  EXPECT_LE(Comment("alloc4").size(), 128U);
  EXPECT_THAT(Comment("alloc4"), StartsWith(HostVeth() + " id=ccc"));
  Detach(Web(), As(id, container()));
  EXPECT_EQ(Elements("alloc4"), json::array());
}

// Without a record an attachment's elements are found by their comments: a label must not be able
// to fake another owner.
TEST_F(HostileLabels, AreNotTakenForAnotherOwnersComment) {
  Attach(Web(), As("web", container()));
  const std::string comment_of_web = Comment("alloc4");
  Detach(Web(), As("web", container()));
  const json config = Publish({Port(8081, 80)}, DualStack());
  Attach(config, As("faker", AddContainer("other"), Cat("NOMAD_JOB_ID=", comment_of_web)));
  const std::string in_one_word = std::regex_replace(comment_of_web, std::regex(" "), "%20");
  EXPECT_THAT(Comment("alloc4"), HasSubstr(in_one_word));
  const json of_faker = Elements("alloc4");

  Attach(Web(), As("web", container()));
  fs::remove(RecordOf("web"));
  Detach(Web(), As("web", container()));

  EXPECT_EQ(Elements("alloc4"), of_faker);
}

}  // namespace
}  // namespace nomad_bridge::test
