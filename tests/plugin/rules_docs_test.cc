// docs/rules.md shows what the kernel holds, to the letter.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

// The block in the document that begins with ```<language>, without its fences.
std::string Block(const std::string& language) {
  const std::string document = ReadFixture("../docs/rules.md");
  const std::string fence = Cat("\n```", language, "\n");
  const std::size_t start = document.find(fence);
  EXPECT_NE(start, std::string::npos) << "no block of " << language;
  if (start == std::string::npos) {
    return "";
  }
  const std::size_t text = start + fence.size();
  return document.substr(text, document.find("```", text) - text);
}

class RulesDocument : public World {
 protected:
  // The allocation of the document.
  RulesDocument() {
    Attach(Publish({Port(8080, 80)}, DualStack()),
           As("5f3c1a2b",
              container(),
              "NOMAD_JOB_ID=billing;NOMAD_GROUP_NAME=api;NOMAD_ALLOC_ID=5f3c1a2b"));
  }
};

TEST_F(RulesDocument, ShowsOurTable) {
  EXPECT_EQ(Block("nft"), ListTable());
}

TEST_F(RulesDocument, ShowsOurTableOfTheBridgeFamily) {
  std::string listed = host().Must({"nft", "list", "table", "bridge", "nomad-bridge"});
  // Two elements of one set come in any order.
  const std::string own = "fd00:26::2";
  const std::string link_local = "fe80::858:acff:fe1a:4002";
  if (listed.find(link_local) < listed.find(own)) {
    listed.replace(listed.find(own), own.size(), "-");
    listed.replace(listed.find(link_local), link_local.size(), own);
    listed.replace(listed.find('-', listed.find(own)), 1, link_local);
  }
  EXPECT_EQ(Block("nftables"), listed);
}

TEST_F(RulesDocument, ShowsWhatIptablesLists) {
  EXPECT_EQ(Block("iptables"), host().Must({"iptables", "-S"}));
  EXPECT_EQ(Block("iptables"), host().Must({"ip6tables", "-S"}));
}

}  // namespace
}  // namespace nomad_bridge::test
