// The whole table, firewall's part and portmap's, against its text in nft's syntax.

#include "base/list.h"
#include "portmap/rules.h"
#include "tests/kernel/ruleset_world.h"

namespace nomad_bridge::test {
namespace {

class WholeTable : public RulesetWorld {
 protected:
  WholeTable() { table_ = TableOf({&firewall::kForwarding, &portmap::kPublishedPorts}); }

  static DesiredState Publishing(int n) {
    DesiredState desired = DesiredOf(n);
    const auto published =
        portmap::MakePortMappings({{.path = "p", .host_port = 8080, .container_port = 80},
                                   {.path = "p",
                                    .host_port = 53,
                                    .container_port = 5353,
                                    .protocol = "udp",
                                    .host_ip = "192.0.2.7"}});
    const auto mappings =
        portmap::Resolve(published, {Ip::Parse(Ip4(n)).value(), Ip::Parse(Ip6(n)).value()});
    Append(desired.elements, portmap::Elements(mappings, Comment(n)));
    return desired;
  }

  // "nft -j list table" without handles.
  static json Json(const Node& node) {
    json list = node.Json({"nft", "-j", "list", "table", "inet", "nomad-bridge"}).at("nftables");
    for (json& item : list) {
      for (json& object : item) {
        object.erase("handle");
      }
    }
    return json::parse(WithoutHash(list.dump()));
  }
};

TEST_F(WholeTable, EqualsItsFixture) {
  Put(Publishing(2));
  EXPECT_EQ(ListTable(), ReadFixture("nft/nomad-bridge.nft"));
  outside().Nft(ReadFixture("nft/nomad-bridge.nft"));
  EXPECT_EQ(Json(host()), Json(outside()));
}

TEST_F(WholeTable, GoesThroughNftAndBackUnchanged) {
  Put(Publishing(2));
  const std::string before = host().Must({"nft", "list", "ruleset"});
  host().Nft("flush ruleset\n" + before);
  EXPECT_EQ(host().Must({"nft", "list", "ruleset"}), before);
  EXPECT_THAT(Diff(Publishing(2)), IsEmpty()) << "nft's own spelling of our rules is not known";
}

}  // namespace
}  // namespace nomad_bridge::test
