// A network config as the tests write it, through ParseConfig.
#pragma once

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugin/cni/json.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/config/config.h"
#include "tests/support/caught.h"

namespace nomad_bridge::test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

inline config::Config ParsedBy(const char* plugin_type,
                               const std::string& text,
                               const std::string& args = "",
                               const std::string& version = "1.1.0") {
  const cni::Request request{.verb = cni::Verb::kAdd,
                             .args = args,
                             .cni_version = version,
                             .config = cni::ParseJson(text, "stdin")};
  return config::ParseConfig(request, cni::TypeOf(plugin_type));
}

inline config::Config Parsed(const std::string& text, const std::string& args = "") {
  return ParsedBy("nomad-bridge", text, args);
}

inline Error Refused(const std::string& text, const std::string& args = "") {
  return Caught([&] { return Parsed(text, args); });
}

struct Bad {
  std::string text;
  std::string path;  // what the message names
};

inline void ExpectInvalid(const Bad& bad, Code code = Code::kInvalidConfig) {
  const Error error = Refused(bad.text);
  EXPECT_EQ(error.code(), code) << bad.text << ": " << error.what();
  EXPECT_THAT(error.msg(), HasSubstr(bad.path)) << bad.text;
  EXPECT_NE(error.details(), "") << bad.text;
}

inline void ExpectEachInvalid(const std::vector<Bad>& cases, Code code = Code::kInvalidConfig) {
  for (const Bad& bad : cases) {
    ExpectInvalid(bad, code);
  }
}

}  // namespace nomad_bridge::test
