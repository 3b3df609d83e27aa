#include "plugin/cni/json.h"
#include "tests/support/growth.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

json Parse(const std::string& text) {
  return *cni::ParseJson(text, "stdin");
}

TEST(ParseJson, TakesTheLastValueOfADuplicateKey) {
  EXPECT_EQ(Parse(R"({"name":"a","name":"b"})").dump(), R"({"name":"b"})");
  EXPECT_EQ(Parse(R"({"ipam":{"type":"x"},"ipam":{}})").dump(), R"({"ipam":{}})");
}

TEST(ParseJson, NamesThePlaceWhereItStopped) {
  EXPECT_THAT(Caught([] { return Parse("{\"name\":\n  nope}"); }),
              IsError(Code::kDecode,
                      "cannot decode stdin as JSON",
                      AllOf(HasSubstr("line 2, column 4"), Not(HasSubstr("json.exception")))));
}

TEST(ParseJson, RefusesEverythingThatIsNotOneDocument) {
  for (const char* const text : {"",
                                 "   ",
                                 "{",
                                 "{}x",
                                 "{} {}",
                                 "[1,]",
                                 "{\"a\":1,}",
                                 "nul",
                                 "{'a':1}",
                                 "{\"a\":1e999}",
                                 "{\"a\":\"\xc3\"}",
                                 "{\"a\":\"\xc3",
                                 "{\"\xff\":1}",
                                 "{\"a\":\"\xed\xa0\x80\"}"}) {
    const Error error = Caught([&] { return Parse(text); });
    EXPECT_EQ(error.code(), Code::kDecode) << text;
    EXPECT_TRUE(IsUtf8(error.details())) << text;
  }
}

TEST(ParseJson, RefusesEightMillionOpenBracketsNamingTheLimit) {
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string bomb;
    while (bomb.size() < (8U << 20)) {
      bomb += open;
    }
    for (const std::string& text : {bomb, Cat("{\"name\":\"nomad\",\"x\":", bomb)}) {
      EXPECT_THAT(Caught([&] { return Parse(text); }),
                  IsError(Code::kDecode, _, "nested deeper than 1000 levels"));
    }
  }
}

TEST(ParseJson, CountsOpenBracketsOutsideOfStringsOnly) {
  const auto nested = [](std::size_t levels) {
    return Parse(std::string(levels, '[') + std::string(levels, ']'));
  };
  EXPECT_NO_THROW(static_cast<void>(nested(1000)));
  EXPECT_EQ(Caught([&] { return nested(1001); }).code(), Code::kDecode);
  const std::string brackets(2000, '[');
  EXPECT_EQ(Parse(Cat(R"(["\\",")", brackets, R"(","\"{)", brackets, "\"]")).size(), 3U);
  std::string flat = "[0";
  for (int i = 0; i < 2000; ++i) {
    flat += ",[{}]";
  }
  EXPECT_EQ(Parse(flat + "]").size(), 2001U);
}

TEST(ParseJson, CostsInProportionToItsKeysAndElements) {
  const auto keys = [](std::size_t count) {
    std::string text = R"({"key":1)";
    for (std::size_t i = 1; i < count; ++i) {
      text += Cat(",\"key", i, "\":1");
    }
    return text + "}";
  };
  const auto objects = [](std::size_t count) {
    std::string text = "[{}";
    for (std::size_t i = 1; i < count; ++i) {
      text += ",{}";
    }
    return text + "]";
  };
  const auto parse = [](const std::string& text) { EXPECT_GT(Parse(text).size(), 1U); };
  EXPECT_LT(test::Growth(4'000, keys, parse), test::kLessThanQuadratic);
  EXPECT_LT(test::Growth(4'000, objects, parse), test::kLessThanQuadratic);
}

TEST(JsonView, FindsKeysInAnyLetterCase) {
  const json config = Parse(R"({"iPmAsQ":true,"none":null})");
  const cni::JsonView view(config, "");
  EXPECT_EQ(view.FindBool("ipMasq"), true);
  EXPECT_FALSE(view.Find("none"));
  EXPECT_FALSE(view.Find("absent"));
}

TEST(JsonView, RefusesAKeyInTwoLetterCases) {
  const json config = Parse(R"({"ipam":[{"DataDir":"/x","dataDir":"/x","other":1,"Other":2}]})");
  const cni::JsonView ipam = cni::JsonView(config, "").FindArray("ipam")[0];
  EXPECT_THAT(Caught([&] { return ipam.Find("dataDir"); }),
              IsError(Code::kDecode,
                      "duplicate key 'ipam[0].dataDir'",
                      "'DataDir' and 'dataDir' are the same key"));
  EXPECT_FALSE(ipam.Find("type")) << "keys that nobody looks for may be there in both";
  const json one_is_null = Parse(R"({"MTU":null,"mtu":1500})");
  EXPECT_EQ(Caught([&] { return cni::JsonView(one_is_null, "").Find("mtu"); }).code(),
            Code::kDecode);
}

TEST(KeepLastOfEachKey, KeepsTheLastInByteOrderAtEveryLevel) {
  json config = Parse(R"({"name":"c","NAME":"a","Name":"b","l":[5,{"x":{"B":1,"b":2,"c":3}}]})");
  cni::KeepLastOfEachKey(config);
  EXPECT_EQ(config.dump(), R"({"l":[5,{"x":{"b":2,"c":3}}],"name":"c"})");
}

TEST(JsonView, NamesThePathInEveryError) {
  const json config = Parse(R"({"IPAM":{"ranges":[[{"subnet":5}]]}})");
  const cni::JsonView subnet =
      cni::JsonView(config, "").Find("ipam").FindArray("ranges")[0].Elements()[0].Find("subnet");
  EXPECT_EQ(subnet.path(), "ipam.ranges[0][0].subnet");
  EXPECT_THAT(Caught([&] { return subnet.Subnet(); }),
              IsError(Code::kInvalidConfig,
                      "invalid 'ipam.ranges[0][0].subnet': 5",
                      HasSubstr("allowed: an IP address with its prefix length")));
}

TEST(JsonView, RefusesWrongTypes) {
  for (const char* const text : {"{}", "[]", "5", "5.0", "true", "\"text\""}) {
    const json value = Parse(text);
    const cni::JsonView view(value, "key");
    const auto refuses_unless = [&](bool has_the_type, const auto& read) {
      if (!has_the_type) {
        EXPECT_EQ(Caught(read).code(), Code::kInvalidConfig) << text;
      }
    };
    refuses_unless(value.is_object(), [&] { return view.Find("a"); });
    refuses_unless(value.is_array(), [&] { return view.Elements(); });
    refuses_unless(value.is_string(), [&] { return view.String(); });
    refuses_unless(value.is_boolean(), [&] { return view.Bool(); });
    refuses_unless(value.is_number_integer(), [&] { return view.Integer(0, 10); });
    refuses_unless(false, [&] { return view.Address(); });
    refuses_unless(false, [&] { return view.Subnet(); });
  }
}

TEST(JsonView, RefusesIntegersOutOfRange) {
  const auto integer = [](const char* text) {
    const json value = Parse(text);
    return cni::JsonView(value, "key").Integer(-1, 10);
  };
  EXPECT_EQ(integer("-1"), -1);
  EXPECT_EQ(integer("10"), 10);
  for (const char* const text :
       {"11", "-2", "18446744073709551615", "9223372036854775808", "1e1", "1.5"}) {
    const Error error = Caught([&] { return integer(text); });
    EXPECT_EQ(error.details(), "allowed: an integer from -1 to 10") << text;
  }
}

TEST(JsonView, TreatsAnEmptyStringAsAbsent) {
  const json config = Parse(R"({"gateway":"","dataDir":""})");
  const cni::JsonView view(config, "");
  EXPECT_FALSE(view.FindAddress("gateway"));
  EXPECT_FALSE(view.FindString("dataDir"));
}

TEST(JsonView, CutsLongValuesInMessages) {
  const json value = json(std::string(5000, 'x') + "\xf0\x9f\x98\x80");
  const Error error = cni::JsonView(value, "key").Wrong("less");
  EXPECT_LT(error.msg().size(), 250U);
  EXPECT_THAT(error.msg(), HasSubstr("..."));
}

}  // namespace
}  // namespace nomad_bridge
