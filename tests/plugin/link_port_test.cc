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

class MacSpoofCheck : public BridgePort {
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

  void TakeMac(const std::string& mac) {
    container().Must({"ip", "link", "set", "eth0", "address", mac});
    container().Must({"ip", "neighbour", "flush", "all"});
  }

  const json config_ = Config(R"({"macspoofchk": true})");
};

TEST_F(MacSpoofCheck, AcceptsOnlyTheAllocationsMac) {
  if (!KernelCan()) {
    return;
  }
  Node& other = AddContainer("other");
  const json neighbour = Attach(Config(), As("other", other));
  const json result = Attach(config_);
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
  EXPECT_TRUE(Ping(container(), AddressOf(neighbour)));
  EXPECT_TRUE(Ping(other, AddressOf(result)));

  TakeMac("02:00:00:00:00:0f");
  EXPECT_FALSE(Ping(container(), "172.26.64.1"));
  EXPECT_FALSE(Ping(container(), AddressOf(neighbour)));

  TakeMac(At(result, "/interfaces/2/mac"));
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
}

TEST_F(MacSpoofCheck, AcceptsARequestedMac) {
  if (!KernelCan()) {
    return;
  }
  Attach(Config(config_.dump().c_str(), R"({"mac": "02:42:ac:1a:40:02"})"));
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
}

TEST_F(MacSpoofCheck, LeavesNothingBehind) {
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

TEST_F(MacSpoofCheck, RepairsAChangedLock) {
  if (!KernelCan()) {
    return;
  }
  ExpectRepaired(
      config_,
      {"bridge link set dev $port locked off",
       "bridge link set dev $port learning on",
       "bridge fdb delete $(bridge fdb show brport $port | grep -m 1 sticky | cut -c 1-17) "
       "dev $port master",
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
