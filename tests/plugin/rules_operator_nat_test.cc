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

}  // namespace
}  // namespace nomad_bridge::test
