// Whatever happens to our tables as a whole, the next ADD works, and the next CHECK, the next
// `reconcile` and the socket's next run put everything right. What the tables say of themselves
// (firewall/about.h) may be lost, old, or forged.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

struct Event : Named {
  std::string_view command;  // sh; $table
};

// Loads the ruleset as another boot, or another release, saved it.
constexpr const char* kFromAnotherBoot =
    "nft list ruleset | sed 's/boot=[0-9a-f]*/boot=00000000/; s/172.26.64.2/172.26.64.77/' > "
    "/run/saved;"
    "nft flush ruleset; nft -f /run/saved";
constexpr const char* kFromAnotherRelease =
    "nft list ruleset | sed 's/tables=[^ \"]*/tables=1/' > /run/saved;"
    "nft flush ruleset; nft -f /run/saved; nft flush chain $table forward";
constexpr const char* kOfSomebodyElse =
    "nft delete table $table;"
    "nft 'table inet nomad-bridge {"
    "  set port4 { type inet_service; elements = { 80 }; };"
    "  chain forward { type filter hook input priority 0; accept; };"
    "  chain mine { drop; }; }'";

std::vector<Event> Events() {
  return {
      {"FlushRuleset", "nft flush ruleset"},
      {"DeleteTable", "nft delete table $table"},
      {"Reload", "nft list ruleset > /run/saved; nft flush ruleset; nft -f /run/saved"},
      {"LoadOfAnotherBoot", kFromAnotherBoot},
      {"LoadOfAnotherRelease", kFromAnotherRelease},
      {"TableOfSomebodyElse", kOfSomebodyElse},
      {"NoAbout", "nft flush set $table about; nft flush chain $table postrouting"},
      {"ForgedAbout",
       "nft flush set $table about; nft flush chain $table postrouting;"
       "nft add element $table about '{ 0x2000 comment \"boot=1 tables=1 rules=1\" }'"},
      {"TwoAbouts",
       "nft add element $table about '{ 0x40 comment \"x\" }'; nft flush chain $table postrouting"},
  };
}

class Tables : public CliWorld, public ::testing::WithParamInterface<Event> {
 protected:
  void SetUp() override {
    UseOnce(other_config_, other_);
    add_ = Attach(config_);
    Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
    MustCheck(config_, add_);
    before_ = TakeSnapshot();
    Listen();
    Must({.argv = {"sh", "-e", "-c", std::string(GetParam().command)},
          .variables = {{"table", Cat("inet ", kTable)}}});
  }

  void ExpectRight() {
    EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
    EXPECT_TRUE(Ping(container(), kOutsideIp4));
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
    EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "page");
    EXPECT_THAT(Output("reconcile -dry-run"), HasSubstr("; nothing to repair\n"));
  }

  const json config_ = Publish({Port(8080, 80)}, DualStack());
  const json other_config_ = Publish({Port(9090, 80)}, DualStack());
  Node& other_node_ = AddContainer("other");
  const Variables other_ = As("other", other_node_);
  json add_;
  Snapshot before_;
};

TEST_P(Tables, AreRightAfterAnAddAndACheck) {
  Attach(other_config_, other_);
  Serve(other_node_, Protocol::kTcp, {"::"}, 80, "other");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 9090), "other");
  MustCheck(config_, add_);
  Detach(other_config_, other_);
  ExpectRight();
}

TEST_P(Tables, AreRightAfterReconcile) {
  EXPECT_EQ(RunLine("reconcile").exit_code, 0);
  ExpectRight();
}

TEST_P(Tables, AreRightAfterTheRunOfTheSocket) {
  EXPECT_THAT(RunByTheSocket(), Exits(0));
  ExpectRight();
}

INSTANTIATE_TEST_SUITE_P(After, Tables, ::testing::ValuesIn(Events()), kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
