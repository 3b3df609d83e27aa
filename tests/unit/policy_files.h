// Policies as files of a directory, and as short texts.
#pragma once

#include "plugin/policy/policy.h"
#include "plugin/policy/program.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/test.h"

namespace nomad_bridge::test {

class PolicyFiles : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(Cat(directory(), '/', name)) << text;
  }
  // A file of this one policy's keys beside its name: Policy(R"("to": ..., "allow": [])").
  void WritePolicy(const std::string& keys, const std::string& name = "a.json") {
    Write(name, Cat("{\"version\": 1, \"policies\": [\n{\"name\": \"api\", ", keys, "}]}"));
  }
  policy::Policies Read() { return policy::ReadPolicies(directory(), remarks_); }
  Error Refused() {
    return Caught([&] { return Read(); });
  }
  // Its place without the directory: "a.json:1:2: ...".
  static ::testing::Matcher<const Error&> Says(const std::string& msg,
                                               const test::TextMatcher& details = _) {
    return IsError(Code::kInvalidConfig, EndsWith(Cat('/', msg)), details);
  }

  [[nodiscard]] const std::string& directory() const { return directory_.path(); }
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  ScratchDirectory directory_;
  std::vector<std::string> remarks_;
};

}  // namespace nomad_bridge::test
