// A probe is judged by policies like a client, but neither counted nor noted.
#include "tests/plugin/policy_world.h"

namespace nomad_bridge::test {
namespace {

class ProbeUnderPolicies : public PolicyWorld {
 protected:
  // The packets that each counter has counted, without those that are 0.
  [[nodiscard]] std::map<std::string, int> Counted() {
    std::map<std::string, int> counted;
    const json listing =
        json::parse(host().Must(Words("nft -j list counters table inet nomad-bridge")));
    for (const json& each : listing.at("nftables")) {
      if (const int packets = At(each, "/counter/packets").is_null()
                                  ? 0
                                  : each.at("counter").at("packets").get<int>()) {
        counted[each.at("counter").at("name")] = packets;
      }
    }
    return counted;
  }
  [[nodiscard]] std::size_t CountFlows() {
    return json::parse(Output("policy status -flows -json")).at("flows").size();
  }

  // Asks for a connection of each protocol and family.
  void InspectAll(const Node& from, const Node& to, int exit_code, const std::string& says) {
    for (const int family : {4, 6}) {
      for (const char* const protocol : {"", "/udp"}) {
        const std::string address = AddressOfNode(to, family);
        const std::string target =
            Cat(family == 4 ? address : Cat('[', address, ']'), ":80", protocol);
        EXPECT_THAT(Run({"inspect", from.name(), "-to", target}),
                    Exits(exit_code, Out(HasSubstr(says))));
        EXPECT_THAT(
            Run({"inspect", to.name(), "-from", AddressOfNode(from, family), "-to", target}),
            Exits(exit_code, Out(HasSubstr(says))));
      }
    }
  }
};

TEST_F(ProbeUnderPolicies, IsRefusedWithoutBeingCounted) {
  const Node& api = Start("prod", "api");
  const Node& etl = Start("dev", "etl");
  for (const bool drops : {false, true}) {
    json policy = kNamespaces;
    if (drops) {
      policy["refuse"] = "drop";
    }
    Apply({policy});
    InspectAll(etl, api, 1, "rule namespaces");
    EXPECT_EQ(Counted(), (std::map<std::string, int>()));
    EXPECT_EQ(CountFlows(), 0U);
  }
  EXPECT_FALSE(Reaches(etl, api));
  EXPECT_THAT(Counted(), SizeIs(1)) << "a client is counted";
  EXPECT_EQ(CountFlows(), 4U);
}

TEST_F(ProbeUnderPolicies, IsLetPassWithoutBeingCounted) {
  const Node& api = Start("prod", "api");
  const Node& web = Start("prod", "web");
  const Node& etl = Start("dev", "etl");
  Apply({kNamespaces});
  InspectAll(web, api, 0, "container ok");
  EXPECT_EQ(Counted(), (std::map<std::string, int>()));
  EXPECT_TRUE(Reaches(web, api));
  EXPECT_THAT(Counted(), SizeIs(1)) << "a client is counted";

  json audited = kNamespaces;
  audited["name"] = "audited";
  audited["mode"] = "audit";
  Apply({audited});
  InspectAll(etl, api, 0, "container ok");
  EXPECT_EQ(Counted(), (std::map<std::string, int>()));
  EXPECT_EQ(CountFlows(), 0U);
  EXPECT_TRUE(Reaches(etl, api));
  EXPECT_THAT(Counted(), SizeIs(1)) << "a client is counted";
  EXPECT_EQ(CountFlows(), 4U);
}

// Other rules see the mark that a client's packet would have.
TEST_F(ProbeUnderPolicies, KeepsItsMark) {
  const Node& api = Start("prod", "api");
  const Node& web = Start("prod", "web");
  Apply({kNamespaces});
  host().Nft(
      "table inet op { chain p { type filter hook prerouting priority -150; tcp dport 80 meta mark "
      "set 0x5; }; chain f { type filter hook forward priority 5; tcp dport 80 meta mark & 0xff != "
      "0x5 drop; }; }");
  EXPECT_TRUE(Reaches(web, api));
  InspectAll(web, api, 0, "container ok");
}

}  // namespace
}  // namespace nomad_bridge::test
