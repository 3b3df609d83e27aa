// What somebody breaks on the host's side is put right, by the ADD of another allocation and by CHECK, and said on stderr.
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/plugin/repair_world.h"

namespace nomad_bridge::test {
namespace {

using ::testing::HasSubstr;

// What a damage may speak of: an allocation with ports 8080/tcp and 8053/udp, on a host that is shared with another.
struct Scene {
  Node& host;
  std::string address;
  std::string host_veth;
};

struct Damage {
  std::string name;
  std::function<void(const Scene&)> act;
  std::string said;                // in what is said on stderr, and by a CHECK that only looks
  bool takes_admin_rules = false;  // the operator's own rules go with it, and cannot come back
  bool only_check_mends = false;   // nobody else suffers from it
};

// A network of both families.
nlohmann::json DualStack() {
  return nlohmann::json::parse(
      R"({"ipam":{"ranges":[[{"subnet":"172.26.64.0/20"}],[{"subnet":"fd00:9::/64"}]]}})");
}

// A damage made by one program.
std::function<void(const Scene&)> By(std::vector<std::string> argv) {
  return [argv](const Scene& scene) { scene.host.Must(argv); };
}

void DeleteFirstRuleOf(const Scene& scene, const std::string& chain) {
  const nlohmann::json listing =
      scene.host.Json({"nft", "-j", "-a", "list", "chain", "inet", kTable, chain});
  for (const nlohmann::json& entry : listing.at("nftables")) {
    if (entry.contains("rule")) {
      const std::string handle = entry.at("rule").at("handle").dump();
      scene.host.Must({"nft", "delete", "rule", "inet", kTable, chain, "handle", handle});
      return;
    }
  }
  FAIL() << "no rule in chain " << chain;
}

void DeleteElement(const Scene& scene, const std::string& set, const std::string& key) {
  scene.host.Must({"nft", "delete", "element", "inet", kTable, set, Cat("{ ", key, " }")});
}

std::vector<Damage> Damages() {
  return {
      {"FlushRuleset", By({"nft", "flush", "ruleset"}), "nomad-bridge", true},
      {"DeleteTable", By({"nft", "delete", "table", "inet", kTable}), "nomad-bridge"},
      {"FlushTable", By({"nft", "flush", "table", "inet", kTable}), "chain"},
      {"FlushChain", By({"nft", "flush", "chain", "inet", kTable, "forward"}), "forward"},
      {"DeleteRule",
       [](const Scene& scene) { DeleteFirstRuleOf(scene, "postrouting"); },
       "postrouting"},
      {"DeletePort",
       [](const Scene& scene) { DeleteElement(scene, "port4", "tcp . 8080"); },
       "8080"},
      {"DeleteAddress",
       [](const Scene& scene) { DeleteElement(scene, "alloc4", scene.address); },
       "alloc4"},
      {"DeleteBridgeElement",
       [](const Scene& scene) { DeleteElement(scene, "bridges", "nomad"); },
       "bridges"},
      {"FlushMap", By({"nft", "flush", "map", "inet", kTable, "port4"}), "port4"},
      {"FlushIptables", By({"iptables", "-F"}), "FORWARD", true},
      {"FlushCniForward", By({"iptables", "-F", "CNI-FORWARD"}), "CNI-FORWARD"},
      {"FlushForward", By({"iptables", "-F", "FORWARD"}), "FORWARD"},
      {"FlushIp6tables", By({"ip6tables", "-F", "CNI-FORWARD"}), "CNI-FORWARD"},
      {"DeleteBridge", By({"ip", "link", "delete", "nomad"}), "'nomad'"},
      {"BridgeDown", By({"ip", "link", "set", "nomad", "down"}), "'nomad'"},
      {"TakePortOut",
       [](const Scene& scene) {
         scene.host.Must({"ip", "link", "set", scene.host_veth, "nomaster"});
       },
       "veth"},
      {"RemoveGateway",
       By({"ip", "address", "delete", "172.26.64.1/20", "dev", "nomad"}),
       "172.26.64.1/20"},
      {"RemoveIpv6Gateway",
       By({"ip", "address", "delete", "fd00:9::1/64", "dev", "nomad"}),
       "fd00:9::1/64"},
      {"Ipv6ForwardingOff",
       [](const Scene& scene) { scene.host.SetSysctl("net/ipv6/conf/all/forwarding", "0"); },
       "forwarding"},
      {"HairpinOff",
       [](const Scene& scene) {
         scene.host.Must({"bridge", "link", "set", "dev", scene.host_veth, "hairpin", "off"});
       },
       "hairpin",
       false,
       true},
      {"ForwardingOff",
       [](const Scene& scene) { scene.host.SetSysctl("net/ipv4/ip_forward", "0"); },
       "ip_forward"},
      {"RemoveLease",
       [](const Scene& scene) { EnsureFileGone(Cat(kLeases, "/", scene.address)); },
       "lease",
       false,
       true},
      {"WipeDataDir",
       [](const Scene&) { std::filesystem::remove_all(kLeases); },
       "lease",
       false,
       true},
  };
}

class Mending : public RepairWorld, public ::testing::WithParamInterface<Damage> {
 protected:
  void SetUp() override {
    other_ = As("other", AddContainer("other"));
    UseOnce(other_config_, other_);
    add_ = MustAdd(config_);
    if (!GetParam().takes_admin_rules) {
      host().Must({"iptables", "-A", "NOMAD-ADMIN", "-s", "203.0.113.0/24", "-j", "DROP"});
    }
    host().Must({"iptables", "-P", "FORWARD", "DROP"});
    before_ = TakeSnapshot();
    servers_.push_back(Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page"));
    servers_.push_back(Server::Start(container(), Protocol::kUdp, "0.0.0.0", 53, "name"));
  }

  void Break() {
    GetParam().act({host(), AddressOf(add_), HostVethOf(add_)});
    if (GetParam().name == "FlushRuleset") {  // it took the policy of FORWARD along
      host().Must({"iptables", "-P", "FORWARD", "DROP"});
    }
  }

  void ExpectWorks() {
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
    EXPECT_EQ(UdpText(outside(), kHostIp4, 8053), "name");
    EXPECT_TRUE(Ping(container(), kOutsideIp4));
    EXPECT_TRUE(Ping(container(), kOutsideIp6));
  }

  const std::string config_ = Config({{"tcp", 8080, 80}, {"udp", 8053, 53}}, DualStack());
  const std::string other_config_ = Config({{"tcp", 9090, 80}}, DualStack());
  Variables other_;
  Outcome add_;
  Snapshot before_;
  std::vector<Server> servers_;
};

TEST_P(Mending, IsDoneByTheAddOfAnother) {
  Break();

  const Outcome add = MustAdd(other_config_, other_);

  EXPECT_NE(AddressOf(add), AddressOf(add_)) << "two have the same address";
  ExpectWorks();
  MustDel(other_config_, other_);
  if (!GetParam().only_check_mends) {
    EXPECT_THAT(add.err, HasSubstr("repaired"));
    EXPECT_THAT(add.err, HasSubstr(GetParam().said));
    EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
  }
}

TEST_P(Mending, IsDoneByCheck) {
  Break();

  const Outcome check = Check(config_, add_);

  EXPECT_EQ(check.exit_code, 0) << check;
  EXPECT_THAT(check.err, HasSubstr("repaired"));
  EXPECT_THAT(check.err, HasSubstr(GetParam().said));
  EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
  ExpectWorks();
  EXPECT_EQ(Check(config_, add_).err, "") << "there was something left to repair";
}

TEST_P(Mending, IsNotDoneByACheckThatMayOnlyLook) {
  Break();
  const Snapshot broken = TakeSnapshot();
  nlohmann::json only_look = nlohmann::json::parse(config_);
  only_look["repairOnCheck"] = false;

  const Outcome check = Check(only_look.dump(), add_);

  EXPECT_EQ(ErrorCode(check), 103) << check;
  EXPECT_THAT(Details(check), HasSubstr(GetParam().said));
  EXPECT_TRUE(Unchanged(broken, TakeSnapshot()));
}

INSTANTIATE_TEST_SUITE_P(Damages, Mending, ::testing::ValuesIn(Damages()), [](const auto& each) {
  return each.param.name;
});

class Undisturbed : public RepairWorld {};

TEST_F(Undisturbed, ACheckFindsNothingToMend) {
  const std::string config = Config({{"tcp", 8080, 80}});
  const Outcome add = MustAdd(config);
  const Snapshot before = TakeSnapshot();
  const Outcome check = Check(config, add);
  EXPECT_EQ(check.exit_code, 0) << check;
  EXPECT_EQ(check.err, "");
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

// A lease file that is gone must not give the address of a living allocation away, were it the last one.
TEST_F(Undisturbed, AnAddressWithoutALeaseIsGivenToNobodyElse) {
  const std::string config = Config({}, {{"ipam", {{"subnet", "10.9.0.0/30"}}}});
  const Outcome first = MustAdd(config);
  ASSERT_EQ(AddressOf(first), "10.9.0.2");
  EnsureFileGone(Cat(kLeases, "/10.9.0.2"));

  const Outcome second = RunPlugin("ADD", config, As("other", AddContainer("other")));

  EXPECT_EQ(ErrorCode(second), 101) << second;
  EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{"10.9.0.2", "alloc-1"}}));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

TEST_F(Undisturbed, AConnectionSurvivesWhatHappensToOthersAndARepair) {
  const std::string config = Config({{"tcp", 8080, 80}});
  const Outcome add = MustAdd(config);
  const Server page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  std::optional<Connection> connection =
      Connection::Open(outside(), {.to = kHostIp4, .port = 8080});
  ASSERT_TRUE(connection.has_value());
  const std::string other_config = Config({{"tcp", 9090, 80}});
  const Variables other = As("other", AddContainer("other"));
  host().Must({"iptables", "-P", "FORWARD", "DROP"});

  EXPECT_TRUE(connection->Echoes("before\n"));
  const Outcome other_add = MustAdd(other_config, other);
  EXPECT_TRUE(connection->Echoes("after another's ADD\n"));
  EXPECT_EQ(Check(other_config, other_add, other).exit_code, 0);
  EXPECT_TRUE(connection->Echoes("after another's CHECK\n"));
  MustAdd(other_config, other);
  EXPECT_TRUE(connection->Echoes("after another's takeover\n"));
  MustDel(other_config, other);
  EXPECT_TRUE(connection->Echoes("after another's DEL\n"));
  const Outcome gc = RunPlugin("GC", GcConfig({"alloc-1"}));
  EXPECT_EQ(gc.exit_code, 0) << gc;
  EXPECT_TRUE(connection->Echoes("after a GC that lists it\n"));
  host().Must({"nft", "flush", "ruleset"});
  host().Must({"iptables", "-P", "FORWARD", "DROP"});
  EXPECT_EQ(Check(config, add).exit_code, 0);
  EXPECT_TRUE(connection->Echoes("after a flush and its repair\n"));
  host().Must({"ip", "link", "delete", "nomad"});
  MustAdd(other_config, other);
  EXPECT_TRUE(connection->Echoes("after a deleted bridge and its repair\n"));
}

}  // namespace
}  // namespace nomad_bridge::test
