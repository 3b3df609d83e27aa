// portIsolation, macspoofchk, enabledad, disableContainerInterface: what they let through, what
// CHECK makes of changes to them.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class BridgePort : public World {
 protected:
  // Those of the flags that are ours.
  json Flags(std::size_t number = 0) {
    const json port = At(PortsOf("nomad").at(number), "/linkinfo/info_slave_data");
    json flags;
    for (const char* flag : {"hairpin", "isolated", "learning", "locked"}) {
      flags[flag] = port.value(flag, false);
    }
    return flags;
  }

  // Every difference that `damage` makes, in a shell with the port's name in $port, is seen by a
  // CHECK that only looks, and repaired by one that may.
  void ExpectRepaired(json config, const std::vector<std::string>& damages) {
    const json result = Attach(config);
    const std::string port = At(result, "/interfaces/1/name");
    for (const std::string& damage : damages) {
      const json before = Flags();
      host().Must({"sh", "-c", Cat("port=", port, "; ", damage)});
      config["repairOnCheck"] = false;
      EXPECT_THAT(Check(config, result), Fails(103)) << damage;

      config["repairOnCheck"] = true;
      EXPECT_THAT(Check(config, result), Exits(0, Err(HasSubstr("repaired")))) << damage;
      EXPECT_EQ(Flags(), before) << damage;
      config["repairOnCheck"] = false;
      EXPECT_EQ(Check(config, result).exit_code, 0) << damage;
    }
  }
};

TEST_F(BridgePort, IsolatedAllocationsReachTheNodeButNotEachOther) {
  Node& other = AddContainer("other");
  const json config = Config(R"({"portIsolation": true})");
  const json result = Attach(config, As("other", other));
  Attach(config);

  EXPECT_EQ(Flags(0).at("isolated"), true);
  EXPECT_EQ(Flags(1).at("isolated"), true);
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
  EXPECT_TRUE(Ping(other, "172.26.64.1"));
  EXPECT_FALSE(Ping(container(), AddressOf(result)));
}

TEST_F(BridgePort, WithoutIsolationAllocationsReachEachOther) {
  const json result = Attach(Config(), As("other", AddContainer("other")));
  Attach(Config());

  EXPECT_EQ(Flags(0).at("isolated"), false);
  EXPECT_TRUE(Ping(container(), AddressOf(result)));
}

TEST_F(BridgePort, RepairsChangedFlags) {
  ExpectRepaired(Config(R"({"portIsolation": true})"),
                 {"bridge link set dev $port isolated off",
                  "bridge link set dev $port hairpin off",
                  "ip link set $port nomaster"});
  Detach(Config());
  ExpectRepaired(Config(), {"bridge link set dev $port isolated on"});
}

// With hairpin mode off and on.
class MacSpoofCheck : public BridgePort, public ::testing::WithParamInterface<bool> {
 protected:
  // Whether this kernel locks ports. Without, an ADD is refused for that, and leaves nothing.
  bool KernelCan() {
    Attach(Config());
    const std::string port = PortsOf("nomad").at(0).at("ifname");
    host().Must({"bridge", "link", "set", "dev", port, "locked", "on"});
    const bool can = Flags().at("locked");
    Detach(Config());
    if (!can) {
      EXPECT_THAT(MustRefuse(100, config_),
                  AllOf(Details(HasSubstr("'macspoofchk' needs")), Details(HasSubstr("5.18"))));
    }
    return can;
  }

  // Empties the neighbour tables of both, so that a broadcast precedes the next packet.
  void TakeMac(const std::string& mac) {
    container().Must({"ip", "link", "set", "eth0", "address", mac});
    for (const Node* const node : {&container(), &other_}) {
      node->Must(Words("ip neighbour flush nud all dev eth0"));
    }
  }

  // Permanent neighbour entries: nothing is broadcast.
  void Introduce(const json& own, const json& others) {
    const auto introduce = [](const Node& to, const Node& who, const json& result) {
      to.Must(Words(Format("ip neighbour replace {} lladdr {} nud permanent dev eth0",
                           AddressOf(result),
                           LinkOn(who, "eth0").at("address").get<std::string>())));
    };
    introduce(container(), other_, others);
    introduce(other_, container(), own);
  }

  static constexpr const char* kFalseMac = "02:00:00:00:00:0f";
  // Our rules would drop a false MAC, too.
  const json open_ = Config({{"hairpinMode", GetParam()}, {"sourceCheck", false}});
  const json config_ = Config(open_.dump().c_str(), R"({"macspoofchk": true})");
  Node& other_ = AddContainer("other");
};

INSTANTIATE_TEST_SUITE_P(Hairpin, MacSpoofCheck, ::testing::Bool(), [](const auto& hairpin) {
  return hairpin.param ? "On" : "Off";
});

TEST_P(MacSpoofCheck, AcceptsOnlyTheAllocationsMac) {
  if (!KernelCan()) {
    return;
  }
  const json neighbour = Attach(Config(), As("other", other_));
  for (const bool is_locked : {false, true}) {
    SCOPED_TRACE(is_locked ? "locked" : "not locked");
    const json result = Attach(is_locked ? config_ : open_);
    EXPECT_TRUE(Ping(container(), "172.26.64.1"));
    EXPECT_TRUE(Ping(container(), AddressOf(neighbour)));
    EXPECT_TRUE(Ping(other_, AddressOf(result)));

    TakeMac(kFalseMac);
    EXPECT_EQ(Ping(container(), AddressOf(neighbour)), !is_locked);
    EXPECT_EQ(other_.Must(Words("ip neighbour")).find(kFalseMac) != std::string::npos, !is_locked)
        << "its question";
    EXPECT_EQ(Ping(container(), "172.26.64.1"), !is_locked);
    Introduce(result, neighbour);
    EXPECT_EQ(Ping(container(), AddressOf(neighbour)), !is_locked);

    TakeMac(At(result, "/interfaces/2/mac"));
    EXPECT_TRUE(Ping(container(), "172.26.64.1"));
    Introduce(result, neighbour);
    EXPECT_TRUE(Ping(container(), AddressOf(neighbour)));
    TakeMac(At(result, "/interfaces/2/mac"));
    Detach(open_);
  }
}

TEST_P(MacSpoofCheck, KeepsAnotherPortFromTakingTheMacAlsoAfterALinkWasDown) {
  if (!KernelCan()) {
    return;
  }
  Attach(Config(), As("other", other_));
  const json result = Attach(config_);
  container().Must(Words("ip link set eth0 down"));
  container().Must(Words("ip link set eth0 up"));
  ASSERT_TRUE(Ping(container(), "172.26.64.1"));
  // The other port is not locked: the bridge learns from it, but must keep the static entry.
  other_.Must({"ip", "link", "set", "eth0", "address", At(result, "/interfaces/2/mac")});
  static_cast<void>(Ping(other_, "172.26.64.1"));

  EXPECT_TRUE(Flags(1).at("locked"));
  container().Must(Words("ip neighbour flush all"));
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
}

TEST_P(MacSpoofCheck, AcceptsARequestedMac) {
  if (!KernelCan()) {
    return;
  }
  Attach(Config(config_.dump().c_str(), R"({"mac": "02:42:ac:1a:40:02"})"));
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
}

TEST_P(MacSpoofCheck, LeavesNothingBehind) {
  if (!KernelCan()) {
    return;
  }
  const Snapshot before = TakeHostSnapshot();
  Attach(config_);
  const std::string mac = LinkOn(container(), "eth0").at("address");
  Detach(config_);

  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
  EXPECT_EQ(host().Must({"bridge", "fdb", "show", "br", "nomad"}).find(mac), std::string::npos);
}

TEST_P(MacSpoofCheck, RepairsAChangedLock) {
  if (!KernelCan()) {
    return;
  }
  constexpr const char* kDeleteEntry =
      "bridge fdb delete $(bridge fdb show brport $port | grep -m 1 sticky | cut -c 1-17) "
      "dev $port master";
  ExpectRepaired(config_,
                 {"bridge link set dev $port locked off",
                  "bridge link set dev $port learning on",
                  "bridge fdb add 02:00:00:00:00:0f dev $port master dynamic",
                  kDeleteEntry,
                  "ip link set $port nomaster"});
}

TEST_F(BridgePort, DuplicateAddressesAreDetectedIfConfigured) {
  Attach(DualStack(R"({"enabledad": true})"));

  EXPECT_EQ(container().Sysctl("net/ipv6/conf/eth0/accept_dad"), "1");
  EXPECT_EQ(container().Sysctl("net/ipv6/conf/eth0/enhanced_dad"), "1");
  const json shown = LinkOn(container(), "eth0");
  for (const json& address : shown.at("addr_info")) {
    EXPECT_FALSE(address.value("tentative", false)) << address;
    EXPECT_FALSE(address.value("nodad", false)) << address;
  }
}

TEST_F(BridgePort, ATakenAddressIsAnErrorIfDetectionIsOn) {
  UseOnce(DualStack());
  Node& other = AddContainer("other");
  Attach(DualStack({{"sourceCheck", false}}),
         As("other", other));  // it answers for another address
  other.Must({"ip", "address", "add", "fd00:26::5/64", "dev", "eth0", "nodad"});
  container().Must({"ip", "link", "set", "lo", "up"});

  EXPECT_THAT(
      MustRefuse(102,
                 DualStack(R"({"enabledad": true, "runtimeConfig": {"ips": ["fd00:26::5"]}})")),
      Msg(HasSubstr("fd00:26::5/64")));
}

TEST_F(BridgePort, ABareLinkMayStayDown) {
  const std::string config = R"({"cniVersion": "1.0.0", "name": "net", "type": "bridge",
                                 "disableContainerInterface": true})";
  const Outcome add = RunPlugin("ADD", config, {}, "bridge");
  ASSERT_EQ(add.exit_code, 0) << add;

  EXPECT_EQ(LinkOn(container(), "eth0").at("operstate"), "DOWN");
  const std::string check = WithResult(json::parse(config), add.json).dump();
  EXPECT_EQ(RunPlugin("CHECK", check, {}, "bridge").exit_code, 0);
  EXPECT_EQ(RunPlugin("DEL", config, {}, "bridge").exit_code, 0);
}

}  // namespace
}  // namespace nomad_bridge::test
