// The README's chapter "The rules" shows what the kernel holds, to the letter.
#include <string>

#include <gtest/gtest.h>

#include "tests/plugin/rules_world.h"

namespace nomad_bridge::test {
namespace {

// The block in the README that begins with ```<language>, without its fences.
std::string Block(const std::string& language) {
  const std::string readme = ReadFixture("../README.md");
  const std::string fence = Cat("\n```", language, "\n");
  const std::size_t start = readme.find(fence);
  EXPECT_NE(start, std::string::npos) << "no block of " << language;
  if (start == std::string::npos) {
    return "";
  }
  const std::size_t text = start + fence.size();
  return readme.substr(text, readme.find("```", text) - text);
}

class Readme : public RulesWorld {
 protected:
  // The allocation that the README tells of.
  Readme() {
    Attach("5f3c1a2b",
           container(),
           Publish({Port(8080, 80)}),
           "NOMAD_JOB_ID=billing;NOMAD_GROUP_NAME=api;NOMAD_ALLOC_ID=5f3c1a2b");
  }
};

TEST_F(Readme, ShowsOurTable) {
  EXPECT_EQ(Block("nft"), host().Must({"nft", "list", "table", "inet", "nomad-bridge"}));
}

TEST_F(Readme, ShowsWhatIptablesLists) {
  EXPECT_EQ(Block("iptables"), host().Must({"iptables", "-S"}));
  EXPECT_EQ(Block("iptables"), host().Must({"ip6tables", "-S"}));
}

}  // namespace
}  // namespace nomad_bridge::test
