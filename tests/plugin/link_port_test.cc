// portIsolation, macspoofchk, enabledad, disableContainerInterface: what they let through, what
// CHECK makes of changes to them.
#include "tests/plugin/link_world.h"

namespace nomad_bridge::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class PortTest : public LinkWorld {
 protected:
  // Those of the flags that are ours.
  json Port(std::size_t number = 0) {
    const json port = At(PortsOf("nomad").at(number), "/linkinfo/info_slave_data");
    json flags;
    for (const char* flag : {"hairpin", "isolated", "learning", "locked"}) {
      flags[flag] = port.value(flag, false);
    }
    return flags;
  }

  static std::string AddressOf(const json& result) {
    const std::string address = AddressesIn(result).at(0);
    return address.substr(0, address.find('/'));
  }

  // Every difference that `damage` makes, in a shell with the port's name in $port, is seen by a
  // CHECK that only looks, and mended by one that may.
  void ExpectMended(const std::string& config, const std::vector<std::string>& damages) {
    const json result = MustAdd(config);
    const std::string port = At(result, "/interfaces/1/name");
    for (const std::string& damage : damages) {
      const json before = Port();
      host().Must({"sh", "-c", Cat("port=", port, "; ", damage)});
      json check = {{"prevResult", result}, {"repairOnCheck", false}};
      const Outcome seen = RunPlugin("CHECK", Network(config, check.dump()));
      EXPECT_EQ(At(seen.json, "/code"), 103) << damage << ": " << seen;

      check["repairOnCheck"] = true;
      const Outcome repaired = RunPlugin("CHECK", Network(config, check.dump()));
      EXPECT_EQ(repaired.exit_code, 0) << damage << ": " << repaired;
      EXPECT_THAT(repaired.err, HasSubstr("repaired")) << damage;
      EXPECT_EQ(Port(), before) << damage;
      check["repairOnCheck"] = false;
      EXPECT_EQ(RunPlugin("CHECK", Network(config, check.dump())).exit_code, 0) << damage;
    }
  }
};

TEST_F(PortTest, IsolatedAllocationsReachTheNodeButNotEachOther) {
  Node& other = AddContainer("other");
  const std::string config = Network(R"({"portIsolation": true})");
  const json result = MustAdd(config, As("other", other));
  MustAdd(config);

  EXPECT_EQ(Port(0).at("isolated"), true);
  EXPECT_EQ(Port(1).at("isolated"), true);
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
  EXPECT_TRUE(Ping(other, "172.26.64.1"));
  EXPECT_FALSE(Ping(container(), AddressOf(result)));
}

TEST_F(PortTest, WithoutIsolationAllocationsReachEachOther) {
  Node& other = AddContainer("other");
  const json result = MustAdd(Network(), As("other", other));
  MustAdd(Network());

  EXPECT_EQ(Port(0).at("isolated"), false);
  EXPECT_TRUE(Ping(container(), AddressOf(result)));
}

TEST_F(PortTest, ChangedFlagsAreSeenAndMended) {
  ExpectMended(Network(R"({"portIsolation": true})"),
               {"bridge link set dev $port isolated off",
                "bridge link set dev $port hairpin off",
                "ip link set $port nomaster"});
  MustDel(Network());
  ExpectMended(Network(), {"bridge link set dev $port isolated on"});
}

class MacCheckTest : public PortTest {
 protected:
  // Whether this kernel locks ports. Without, an ADD is refused for that, and leaves nothing.
  bool KernelCan() {
    MustAdd(Network());
    const std::string port = PortsOf("nomad").at(0).at("ifname");
    host().Must({"bridge", "link", "set", "dev", port, "locked", "on"});
    const bool can = Port().at("locked");
    MustDel(Network());
    if (!can) {
      const Outcome refused = MustRefuse(100, config_);
      EXPECT_THAT(refused.json.value("details", ""), HasSubstr("'macspoofchk' needs"));
      EXPECT_THAT(refused.json.value("details", ""), HasSubstr("5.18"));
    }
    return can;
  }

  void TakeMac(const std::string& mac) {
    container().Must({"ip", "link", "set", "eth0", "address", mac});
    container().Must({"ip", "neighbour", "flush", "all"});
  }

  const std::string config_ = Network(R"({"macspoofchk": true})");
};

TEST_F(MacCheckTest, OnlyTheAllocationsOwnMacComesIn) {
  if (!KernelCan()) {
    return;
  }
  Node& other = AddContainer("other");
  const json neighbour = MustAdd(Network(), As("other", other));
  const json result = MustAdd(config_);
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
  EXPECT_TRUE(Ping(container(), AddressOf(neighbour)));
  EXPECT_TRUE(Ping(other, AddressOf(result)));

  TakeMac("02:00:00:00:00:0f");
  EXPECT_FALSE(Ping(container(), "172.26.64.1"));
  EXPECT_FALSE(Ping(container(), AddressOf(neighbour)));

  TakeMac(At(result, "/interfaces/2/mac"));
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
}

TEST_F(MacCheckTest, AMacThatWasAskedForIsTheRightOne) {
  if (!KernelCan()) {
    return;
  }
  MustAdd(Network(config_, R"({"mac": "02:42:ac:1a:40:02"})"));
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
}

TEST_F(MacCheckTest, LeavesNothingBehind) {
  if (!KernelCan()) {
    return;
  }
  const Snapshot before = TakeHostSnapshot();
  MustAdd(config_);
  const std::string mac = LinkOn(container(), "eth0").at("address");
  MustDel(config_);

  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
  EXPECT_EQ(host().Must({"bridge", "fdb", "show", "br", "nomad"}).find(mac), std::string::npos);
}

TEST_F(MacCheckTest, AChangedLockIsSeenAndMended) {
  if (!KernelCan()) {
    return;
  }
  ExpectMended(
      config_,
      {"bridge link set dev $port locked off",
       "bridge link set dev $port learning on",
       "bridge fdb delete $(bridge fdb show brport $port | grep -m 1 sticky | cut -c 1-17) "
       "dev $port master",
       "ip link set $port nomaster"});
}

TEST_F(PortTest, AddressesAreAskedForIfDetectionIsOn) {
  MustAdd(Network(kDualStack, R"({"enabledad": true})"));

  EXPECT_EQ(container().Sysctl("net/ipv6/conf/eth0/accept_dad"), "1");
  EXPECT_EQ(container().Sysctl("net/ipv6/conf/eth0/enhanced_dad"), "1");
  const json shown = LinkOn(container(), "eth0");
  for (const json& address : shown.at("addr_info")) {
    EXPECT_FALSE(address.value("tentative", false)) << address;
    EXPECT_FALSE(address.value("nodad", false)) << address;
  }
}

TEST_F(PortTest, AnAddressThatSomebodyHasIsAnErrorIfDetectionIsOn) {
  Node& other = AddContainer("other");
  MustAdd(Network(kDualStack), As("other", other));
  other.Must({"ip", "address", "add", "fd00:26::5/64", "dev", "eth0", "nodad"});
  container().Must({"ip", "link", "set", "lo", "up"});

  const Outcome refused = MustRefuse(
      102, Network(kDualStack, R"({"enabledad": true, "runtimeConfig": {"ips": ["fd00:26::5"]}})"));

  EXPECT_THAT(refused.json.value("msg", ""), HasSubstr("fd00:26::5/64"));
}

TEST_F(PortTest, ABareLinkMayStayDown) {
  const std::string config = R"({"cniVersion": "1.0.0", "name": "net", "type": "bridge",
                                 "disableContainerInterface": true})";
  const Outcome add = RunPlugin("ADD", config, {}, "bridge");
  ASSERT_EQ(add.exit_code, 0) << add;

  EXPECT_EQ(LinkOn(container(), "eth0").at("operstate"), "DOWN");
  json check = json::parse(config);
  check["prevResult"] = add.json;
  const Outcome checked = RunPlugin("CHECK", check.dump(), {}, "bridge");
  EXPECT_EQ(checked.exit_code, 0) << checked;
  EXPECT_EQ(RunPlugin("DEL", config, {}, "bridge").exit_code, 0);
}

}  // namespace
}  // namespace nomad_bridge::test
