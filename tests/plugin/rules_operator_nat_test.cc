// The operator's own NAT rules decide, for allocations and for published ports, whichever program
// loads them and whatever was loaded first.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

// The node's second addresses.
constexpr const char* kSecondIp4 = "198.51.100.7";
constexpr const char* kSecondIp6 = "2001:db8:100::7";

// What an operator writes: allocations leave by the node's second address, and port 8080 of the
// node is a service of the node on port 9000.
constexpr const char* kIptables = R"(
$tables4 -t nat -A POSTROUTING -s 172.26.64.0/20 -o uplink -j SNAT --to-source 198.51.100.7
$tables6 -t nat -A POSTROUTING -s fd00:26::/64 -o uplink -j SNAT --to-source 2001:db8:100::7
for tables in $tables4 $tables6; do
  for chain in PREROUTING OUTPUT; do
    $tables -t nat -A $chain -p tcp --dport 8080 -j REDIRECT --to-ports 9000
  done
done
)";
constexpr const char* kNative = R"(nft -f - <<END
table inet mine {
  chain leaving {
    type nat hook postrouting priority $source;
    ip saddr 172.26.64.0/20 oifname "uplink" snat ip to 198.51.100.7
    ip6 saddr fd00:26::/64 oifname "uplink" snat ip6 to 2001:db8:100::7
  }
  chain arriving { type nat hook prerouting priority $destination; tcp dport 8080 redirect to :9000; }
  chain own { type nat hook output priority $destination; tcp dport 8080 redirect to :9000; }
}
END
)";

struct Program : Named {
  std::string load;  // sh
};

std::vector<Program> Programs() {
  const auto with = [](const char* variables, const char* commands) {
    return Cat(variables, '\n', commands);
  };
  return {
      {{"Iptables"}, with("tables4=iptables; tables6=ip6tables", kIptables)},
      {{"IptablesLegacy"}, with("tables4=iptables-legacy; tables6=ip6tables-legacy", kIptables)},
      {{"Native"}, with("source=100; destination=-100", kNative)},
      // The priorities of firewalld's chains.
      {{"NativeAfterIptables"}, with("source=110; destination=-90", kNative)}};
}

class OperatorsNat : public CliWorld, public ::testing::WithParamInterface<Program> {
 protected:
  OperatorsNat() {
    host().Shell(
        "ip address add 198.51.100.7/24 dev uplink\n"
        "ip address add 2001:db8:100::7/64 dev uplink nodad");
    Serve(host(), Protocol::kTcp, {"::"}, 9000, "operator's");
    Serve(outside(), Protocol::kTcp, {kOutsideIp4, kOutsideIp6}, 25, "outside");
  }

  void Load() { host().Shell(GetParam().load); }
  void Add() {
    Attach(Publish({Port(8080, 80)}, DualStack()));
    Serve(container(), Protocol::kTcp, {"::"}, 80, "allocation's");
  }

  void ExpectThatTheOperatorsRulesDecide() {
    EXPECT_EQ(Ask(container(), {.to = kOutsideIp4, .port = 25}), (Reply{"outside", kSecondIp4}));
    EXPECT_EQ(Ask(container(), {.to = kOutsideIp6, .port = 25}), (Reply{"outside", kSecondIp6}));
    for (const Node* const from : {&outside(), &host()}) {
      for (const char* const to : {kHostIp4, kHostIp6}) {
        EXPECT_EQ(TcpText(*from, to, 8080), "operator's") << from->name() << " to " << to;
      }
    }
  }
};

TEST_P(OperatorsNat, DecidesIfItWasLoadedFirst) {
  Load();
  Add();
  ExpectThatTheOperatorsRulesDecide();
}

TEST_P(OperatorsNat, DecidesIfItIsLoadedLater) {
  Add();
  Load();
  ExpectThatTheOperatorsRulesDecide();
}

TEST_P(OperatorsNat, DecidesAfterAFlushAndAReload) {
  Add();
  host().Must({"nft", "flush", "ruleset"});
  Load();
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  ExpectThatTheOperatorsRulesDecide();
}

INSTANTIATE_TEST_SUITE_P(LoadedBy, OperatorsNat, ::testing::ValuesIn(Programs()), kNameOf);

// ---- what keeps its source (nonMasqueradeCIDRs)

// The outside is also a machine of a routed network, which knows the way to allocations.
constexpr const char* kRoutedIp4 = "10.9.9.9";
constexpr const char* kRoutedIp6 = "fd99::9";

class NonMasquerade : public CliWorld {
 protected:
  NonMasquerade() {
    outside().Shell("ip address add 10.9.9.9/32 dev lo; ip address add fd99::9/128 dev lo nodad");
    Serve(outside(), Protocol::kTcp, {kOutsideIp4, kOutsideIp6, kRoutedIp4, kRoutedIp6}, 25, "x");
  }

  static void ExpectSeenAs(const Node& node,
                           const std::vector<std::string>& addresses,
                           const std::string& as4,
                           const std::string& as6) {
    for (const std::string& to : addresses) {
      const std::string& expected = to.find(':') == to.npos ? as4 : as6;
      EXPECT_EQ(Ask(node, {.to = to, .port = 25}), (Reply{"x", expected})) << to;
    }
  }
  void ExpectThatOnlyRoutedNetworksSeeTheAllocation() {
    ExpectSeenAs(container(), {kRoutedIp4, kRoutedIp6}, "172.26.64.2", "fd00:26::2");
    ExpectSeenAs(container(), {kOutsideIp4, kOutsideIp6}, kHostIp4, kHostIp6);
  }

  // Prefixes may overlap, and have host bits.
  const json prefixes_ = {"10.9.0.0/16", "10.1.2.3/8", "fd99::/16", "192.0.2.1/32"};
  const json config_ = DualStack({{"nonMasqueradeCIDRs", prefixes_}});
};

TEST_F(NonMasquerade, KeepsTheSourceTowardsThesePrefixesOnly) {
  Attach(config_);
  ExpectThatOnlyRoutedNetworksSeeTheAllocation();
}

TEST_F(NonMasquerade, ConcernsOneNetwork) {
  Attach(config_);
  json other = DualStack({{"name", "other"}, {"bridge", "other"}});
  other["ipam"]["ranges"] = {{{{"subnet", "10.77.0.0/24"}}}, {{{"subnet", "fd00:77::/64"}}}};
  Node& node = AddContainer("other");
  Attach(other, As("other", node));
  ExpectSeenAs(node, {kRoutedIp4, kRoutedIp6, kOutsideIp4, kOutsideIp6}, kHostIp4, kHostIp6);
  ExpectThatOnlyRoutedNetworksSeeTheAllocation();
}

TEST_F(NonMasquerade, IsRepairedAndGoesWithTheAllocation) {
  const json add = Attach(config_);
  for (const char* const damage : {"nft flush ruleset",
                                   "nft flush set inet nomad-bridge nomasq4",
                                   "nft flush set inet nomad-bridge nomasq6"}) {
    host().Shell(damage);
    EXPECT_THAT(RunLine("reconcile"), Exits(0)) << damage;
    ExpectThatOnlyRoutedNetworksSeeTheAllocation();
  }
  host().Shell("nft flush set inet nomad-bridge nomasq4");
  MustCheck(config_, add);
  ExpectThatOnlyRoutedNetworksSeeTheAllocation();
  EXPECT_THAT(MustCheck(config_, add), Err(""));

  // The container's next ADD has other prefixes.
  Attach(DualStack({{"nonMasqueradeCIDRs", {"10.9.9.0/24", "fd99::9/128"}}}));
  ExpectThatOnlyRoutedNetworksSeeTheAllocation();
  Attach(DualStack());
  ExpectSeenAs(container(), {kRoutedIp4, kRoutedIp6}, kHostIp4, kHostIp6);
  Attach(config_);
  Detach(config_);
  for (const char* const set : {"nomasq4", "nomasq6"}) {
    EXPECT_EQ(Elements(set), json::array()) << set;
  }
}

TEST_F(NonMasquerade, GoesWithGcIfNoRecordIsLeft) {
  Attach(config_);
  fs::remove(RecordOf("alloc-1"));
  host().Must({"ip", "link", "delete", OnlyPort()});
  EXPECT_THAT(RunLine("gc"), Exits(0));
  EXPECT_EQ(Elements("nomasq4"), json::array());
  EXPECT_EQ(Elements("nomasq6"), json::array());
}

TEST_F(NonMasquerade, HasNoElementsWithoutIpMasq) {
  Attach(DualStack({{"nonMasqueradeCIDRs", prefixes_}, {"ipMasq", false}}));
  EXPECT_EQ(Elements("nomasq4"), json::array());
  ExpectSeenAs(container(), {kRoutedIp4, kRoutedIp6}, "172.26.64.2", "fd00:26::2");
}

// Nomad writes the config of its own mode "bridge".
TEST_F(NonMasquerade, OfTheNodeConcernsNetworksOfNomad) {
  const NodeConfig node(json({{"nonMasqueradeCIDRs", prefixes_}}).dump());
  json nomads = DualStack({{"type", "bridge"},
                           {"bridge", "nomad"},
                           {"ipMasq", true},
                           {"isDefaultGateway", true},
                           {"ipam", {{"type", "host-local"}}}});
  const Outcome bridge = RunPlugin("ADD", nomads.dump(), As("alloc-1", container()), "bridge");
  ASSERT_EQ(bridge.exit_code, 0) << bridge;
  // As in Nomad's list: without it, nothing of ours lets packets pass beside another firewall.
  ASSERT_THAT(
      RunPlugin(
          "ADD", WithResult(nomads, bridge.json).dump(), As("alloc-1", container()), "firewall"),
      Exits(0));
  ExpectThatOnlyRoutedNetworksSeeTheAllocation();
}

TEST_F(NonMasquerade, OfTheNodeIsReadWithItsPlace) {
  const NodeConfig node(R"({"nonMasqueradeCIDRs": ["10.0.0.0"]})");
  EXPECT_THAT(RunPlugin("ADD", DualStack()),
              Exits(0,
                    Err(AllOf(HasSubstr("config.json:1:25: invalid 'nonMasqueradeCIDRs': "
                                        "'10.0.0.0'"),
                              HasSubstr("'10.0.0.0/8'")))));
}

}  // namespace
}  // namespace nomad_bridge::test
