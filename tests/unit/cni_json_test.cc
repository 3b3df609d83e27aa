#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "plugin/cni/json.h"
#include "tests/unit/caught.h"

namespace nomad_bridge {
namespace {

using nlohmann::json;
using test::Caught;
using ::testing::HasSubstr;
using ::testing::Not;

json Parse(const std::string& text) {
  return cni::ParseJson(text, "stdin");
}

TEST(ParseJson, OfKeysInDifferentLetterCaseTheLastStays) {
  EXPECT_EQ(Parse(R"({"name":"a","Name":"b"})").dump(), R"({"Name":"b"})");
  EXPECT_EQ(Parse(R"({"Name":"b","name":"a"})").dump(), R"({"name":"a"})");
  EXPECT_EQ(Parse(R"({"name":"a","Name":"b","name":"c"})").dump(), R"({"name":"c"})");
  EXPECT_EQ(Parse(R"({"name":"a","name":"b"})").dump(), R"({"name":"b"})");
}

TEST(ParseJson, FoldsKeysPerObject) {
  const json document = Parse(R"([{"a":{"A":1,"b":[{"A":2}]}},{"A":3}])");
  EXPECT_EQ(document.dump(), R"([{"a":{"A":1,"b":[{"A":2}]}},{"A":3}])");
}

TEST(ParseJson, KeepsWhatAKeyHeldBeforeOutOfTheLastOne) {
  EXPECT_EQ(Parse(R"({"ipam":{"type":"x"},"IPAM":{}})").dump(), R"({"IPAM":{}})");
}

TEST(ParseJson, SaysWhereItStopped) {
  const Error error = Caught([] { static_cast<void>(Parse("{\"name\":\n  nope}")); });
  EXPECT_EQ(error.code(), Code::kDecode);
  EXPECT_EQ(error.msg(), "cannot decode stdin as JSON");
  EXPECT_THAT(error.details(), HasSubstr("line 2, column 4"));
  EXPECT_THAT(error.details(), Not(HasSubstr("json.exception")));
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
    const Error error = Caught([&] { static_cast<void>(Parse(text)); });
    EXPECT_EQ(error.code(), Code::kDecode) << text;
    EXPECT_TRUE(IsUtf8(error.details())) << text;
  }
}

TEST(ParseJson, WithstandsAMillionOpenBrackets) {
  for (const std::string& open : {std::string("["), std::string("{\"a\":")}) {
    std::string bomb;
    for (int i = 0; i < 1'000'000; ++i) {
      bomb += open;
    }
    const Error error = Caught([&] { static_cast<void>(Parse(bomb)); });
    EXPECT_EQ(error.code(), Code::kDecode);
    EXPECT_THAT(error.details(), HasSubstr("1000 levels"));
  }
}

TEST(ParseJson, IsNotSlowWithManyKeysOrManyElements) {
  std::string keys = "{";
  std::string objects = "[";
  for (int i = 0; i < 100'000; ++i) {
    keys += Cat(i == 0 ? "" : ",", "\"key", i, "\":1");
    objects += i == 0 ? "{}" : ",{}";
  }
  // Quadratic work would take minutes here.
  EXPECT_EQ(Parse(keys + "}").size(), 100'000U);
  EXPECT_EQ(Parse(objects + "]").size(), 100'000U);
}

TEST(JsonView, FindsKeysInAnyLetterCase) {
  const json config = Parse(R"({"iPmAsQ":true,"none":null})");
  const cni::JsonView view(config, "");
  EXPECT_EQ(view.FindBool("ipMasq"), true);
  EXPECT_FALSE(view.Find("none"));
  EXPECT_FALSE(view.Find("absent"));
}

TEST(JsonView, NamesThePathInEveryError) {
  const json config = Parse(R"({"IPAM":{"ranges":[[{"subnet":5}]]}})");
  const cni::JsonView subnet =
      *cni::JsonView(config, "").Find("ipam")->ElementsOf("ranges")[0].Elements()[0].Find("subnet");
  EXPECT_EQ(subnet.path(), "ipam.ranges[0][0].subnet");
  const Error error = Caught([&] { static_cast<void>(subnet.Subnet()); });
  EXPECT_EQ(error.code(), Code::kInvalidConfig);
  EXPECT_EQ(error.msg(), "invalid 'ipam.ranges[0][0].subnet': 5");
  EXPECT_THAT(error.details(), HasSubstr("allowed: an IP address with its prefix length"));
}

TEST(JsonView, RefusesWrongTypes) {
  for (const char* const text : {"{}", "[]", "5", "5.0", "true", "\"text\""}) {
    const json value = Parse(text);
    const cni::JsonView view(value, "key");
    const auto refuses = [&](const auto& read) {
      EXPECT_EQ(Caught(read).code(), Code::kInvalidConfig) << text;
    };
    if (!value.is_object()) {
      refuses([&] { static_cast<void>(view.Find("a")); });
    }
    if (!value.is_array()) {
      refuses([&] { static_cast<void>(view.Elements()); });
    }
    if (!value.is_string()) {
      refuses([&] { static_cast<void>(view.String()); });
    }
    if (!value.is_boolean()) {
      refuses([&] { static_cast<void>(view.Bool()); });
    }
    if (!value.is_number_integer()) {
      refuses([&] { static_cast<void>(view.Integer(0, 10)); });
    }
    refuses([&] { static_cast<void>(view.Address()); });
    refuses([&] { static_cast<void>(view.Subnet()); });
  }
}

TEST(JsonView, IntegersKeepTheirRange) {
  const auto integer = [](const char* text) {
    const json value = Parse(text);
    return cni::JsonView(value, "key").Integer(-1, 10);
  };
  EXPECT_EQ(integer("-1"), -1);
  EXPECT_EQ(integer("10"), 10);
  for (const char* const text :
       {"11", "-2", "18446744073709551615", "9223372036854775808", "1e1", "1.5"}) {
    const Error error = Caught([&] { static_cast<void>(integer(text)); });
    EXPECT_EQ(error.details(), "allowed: an integer from -1 to 10") << text;
  }
}

TEST(JsonView, AnEmptyTextIsNone) {
  const json config = Parse(R"({"gateway":"","dataDir":""})");
  const cni::JsonView view(config, "");
  EXPECT_FALSE(view.FindAddress("gateway"));
  EXPECT_FALSE(view.FindText("dataDir"));
}

TEST(JsonView, CutsLongValuesInMessages) {
  const json value = json(std::string(5000, 'x') + "\xf0\x9f\x98\x80");
  const Error error = cni::JsonView(value, "key").Wrong("less");
  EXPECT_LT(error.msg().size(), 250U);
  EXPECT_THAT(error.msg(), HasSubstr("..."));
}

}  // namespace
}  // namespace nomad_bridge
