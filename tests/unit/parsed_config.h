// A network config as the tests write it, through ParseConfig.
#pragma once

#include "plugin/cni/json.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/config/config.h"
#include "tests/support/test.h"

namespace nomad_bridge::test {

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
  EXPECT_THAT(Refused(bad.text), IsError(code, HasSubstr(bad.path), Ne(""))) << bad.text;
}

inline void ExpectEachInvalid(const std::vector<Bad>& cases, Code code = Code::kInvalidConfig) {
  for (const Bad& bad : cases) {
    ExpectInvalid(bad, code);
  }
}

}  // namespace nomad_bridge::test
