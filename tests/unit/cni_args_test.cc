#include <random>

#include "plugin/cni/args.h"
#include "tests/support/config.h"
#include "tests/support/growth.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

using test::Words;

Error Refused(const std::string& text) {
  return Caught([&] { return cni::ParseArgs(text); });
}

TEST(ParseArgs, ReadsWhatNomadSends) {
  const cni::Args args = cni::ParseArgs(
      "IgnoreUnknown=true;NOMAD_REGION=global;NOMAD_NAMESPACE=default;NOMAD_JOB_ID=billing;"
      "NOMAD_GROUP_NAME=api;NOMAD_ALLOC_ID=5f3c1a2b-0000;team=blue");
  EXPECT_EQ(args.labels,
            (cni::Labels{{"NOMAD_REGION", "global"},
                         {"NOMAD_NAMESPACE", "default"},
                         {"NOMAD_JOB_ID", "billing"},
                         {"NOMAD_GROUP_NAME", "api"},
                         {"NOMAD_ALLOC_ID", "5f3c1a2b-0000"},
                         {"team", "blue"}}));
  EXPECT_FALSE(args.mac);
  EXPECT_FALSE(args.ip);
}

TEST(ParseArgs, TakesAnEmptyStringForNoArguments) {
  EXPECT_TRUE(cni::ParseArgs("").labels.empty());
}

TEST(ParseArgs, SplitsAtTheFirstEqualsSign) {
  EXPECT_EQ(cni::ParseArgs("IgnoreUnknown=1;QUERY=a=b==").labels,
            (cni::Labels{{"QUERY", "a=b=="}}));
  EXPECT_EQ(cni::ParseArgs("NOMAD_JOB_ID==x").labels, (cni::Labels{{"NOMAD_JOB_ID", "=x"}}));
}

TEST(ParseArgs, ReadsAddressAndMac) {
  const cni::Args args = cni::ParseArgs("MAC=02:42:ac:1a:40:02;IP=172.26.64.5/20");
  EXPECT_EQ(args.mac, Mac::Parse("02:42:ac:1a:40:02"));
  EXPECT_EQ(args.ip, Ip::Parse("172.26.64.5"));
  EXPECT_EQ(cni::ParseArgs("IP=fd00::5").ip, Ip::Parse("fd00::5"));
  EXPECT_FALSE(cni::ParseArgs("IP=;MAC=").ip);
}

// A job may have labels of its own, "ip" and "mac" among them.
TEST(ParseArgs, TreatsKeysInAnotherLetterCaseAsLabels) {
  const cni::Args args = cni::ParseArgs("IgnoreUnknown=1;ip=hello;mac=mini");
  EXPECT_EQ(args.labels, (cni::Labels{{"ip", "hello"}, {"mac", "mini"}}));
  EXPECT_FALSE(args.ip);
  EXPECT_FALSE(args.mac);
  EXPECT_EQ(Refused("ignoreunknown=1;x=y").code(), Code::kInvalidEnvironment);
}

TEST(ParseArgs, TakesTheLastOfDuplicates) {
  EXPECT_EQ(cni::ParseArgs("NOMAD_JOB_ID=a;nomad_job_id=b").labels,
            (cni::Labels{{"nomad_job_id", "b"}}));
  EXPECT_EQ(cni::ParseArgs("IP=10.0.0.1;IP=10.0.0.2").ip, Ip::Parse("10.0.0.2"));
  EXPECT_EQ(Refused("IgnoreUnknown=1;IgnoreUnknown=0;x=y").code(), Code::kInvalidEnvironment);
}

TEST(ParseArgs, NamesAForgedKey) {
  EXPECT_EQ(cni::ParseArgs("NOMAD_JOB_ID=a;nomad_job_id=b").forged_key, "nomad_job_id");
  EXPECT_EQ(cni::ParseArgs("K8S_POD_NAME=a;K8S_POD_NAME=b").forged_key, "K8S_POD_NAME");
  EXPECT_EQ(cni::ParseArgs("NOMAD_JOB_ID=a;NOMAD_X_1=b;IgnoreUnknown=1;team=a;Team=b").forged_key,
            "");
}

TEST(ParseArgs, RefusesPairsWithoutKeyOrEqualsSign) {
  for (const std::string& text : Words("none =b IgnoreUnknown=1;=b A=B; ;A=B NOMAD_X=1;;NOMAD_Y=2 "
                                       "IgnoreUnknown=1;A IgnoreUnknown=1; ;")) {
    EXPECT_THAT(Refused(text), IsError(Code::kInvalidEnvironment, HasSubstr("CNI_ARGS"))) << text;
  }
}

TEST(ParseArgs, RefusesBadValuesNamingThePair) {
  for (const std::string& pair :
       Words("MAC=01:00:5e:00:00:01 MAC=00:00:00:00:00:00 MAC=02:42:ac:1a:40 MAC=x IP=10.0.0 "
             "IP=10.0.0.5/33 IP=10.0.0.5/ IP=10.0.0.5,10.0.0.6 IgnoreUnknown=maybe "
             "IgnoreUnknown=")) {
    EXPECT_THAT(Refused(pair), IsError(Code::kInvalidEnvironment, HasSubstr(pair))) << pair;
  }
}

TEST(ParseArgs, RefusesUnknownKeysUnlessIgnoreUnknownIsSet) {
  EXPECT_THAT(Refused("FOO=1;NOMAD_JOB_ID=a;BAR=2").msg(), HasSubstr("FOO=1;BAR=2"));
  EXPECT_EQ(Refused("IgnoreUnknown=0;FOO=1").code(), Code::kInvalidEnvironment);
  for (const char* const yes : {"1", "true", "TRUE", "True"}) {
    EXPECT_EQ(cni::ParseArgs(Cat("FOO=1;IgnoreUnknown=", yes)).labels, (cni::Labels{{"FOO", "1"}}))
        << yes;
  }
  EXPECT_EQ(cni::ParseArgs("NOMAD_ANYTHING=1;K8S_POD_UID=2").labels.size(), 2U);
}

TEST(ParseArgs, KeepsHostileValuesAsTheyAreButForBrokenUtf8) {
  for (const std::string& value : {std::string("\"quoted\" 'text' \\"),
                                   std::string("two\nlines\r\n\t"),
                                   std::string(4096, 'x'),
                                   std::string("\xc3\xa4\xf0\x9f\x98\x80"),
                                   std::string("$(reboot) `reboot` %s {}")}) {
    EXPECT_EQ(cni::ParseArgs(Cat("NOMAD_JOB_ID=", value)).labels,
              (cni::Labels{{"NOMAD_JOB_ID", ValidUtf8(value)}}));
  }
}

TEST(ParseArgs, MakesLabelsValidUtf8) {
  EXPECT_EQ(cni::ParseArgs("IgnoreUnknown=1;k\xff=a\xc3;NOMAD_JOB_ID=\xe2\x82").labels,
            (cni::Labels{{"k?", "a?"}, {"NOMAD_JOB_ID", "??"}}));
}

// For any text, the result is either labels with that text (broken UTF-8 as '?'), or an error that
// any output can carry.
TEST(ParseArgs, NeverMisreadsRandomText) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same cases every time
  constexpr std::string_view kLikely = "==;;AaIiPpMmCc10./:\"\\\n\xff\xc3";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = round % 2 == 0 ? "IgnoreUnknown=1" : "NOMAD_JOB_ID=x";
    for (std::size_t length = random() % 24; length > 0; --length) {
      text += random() % 4 == 0 ? static_cast<char>(1 + random() % 255)
                                : kLikely[random() % kLikely.size()];
    }
    try {
      for (const cni::Label& label : cni::ParseArgs(text).labels) {
        EXPECT_THAT(ValidUtf8(text), HasSubstr(Cat(label.key, '=', label.value)));
        EXPECT_EQ(label.value.find(';'), label.value.npos) << text;
        EXPECT_EQ(label.key.find('='), label.key.npos) << text;
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidEnvironment) << text;
      EXPECT_EQ(error.msg(), Printable(error.msg())) << text;
    }
  }
}

TEST(ParseArgs, CostsInProportionToItsPairs) {
  const auto make = [](std::size_t bytes) {
    std::string text = "IgnoreUnknown=1";
    for (std::uint64_t i = 0; text.size() < bytes; ++i) {
      text += Cat(";", Hex(i, 4), "=");
    }
    return text;
  };
  const auto parse = [](const std::string& text) {
    EXPECT_GT(cni::ParseArgs(text).labels.size(), text.size() / 7);
  };
  // Up to MAX_ARG_STRLEN: what execve(2) lets through.
  EXPECT_LT(test::Growth(131'072 / 8, make, parse), test::kLessThanQuadratic);
}

}  // namespace
}  // namespace nomad_bridge
