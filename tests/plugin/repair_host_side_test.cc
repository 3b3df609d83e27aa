// What somebody breaks on the host's side is repaired and logged on stderr: by CHECK and by GC; by the
// ADD of another allocation, if it concerns all.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

// What somebody does to an allocation with ports 8080/tcp and 8053/udp, on a host that is shared with
// another.
struct Damage : Named {
  // For a shell in the host: $table is our table, $leases the data dir's, $address and $veth the
  // allocation's.
  const char* command;
  std::string reported;  // in the log line, and in the error of a CHECK that may not repair
  bool takes_admin_rules = false;  // the operator's own rules go with it, and cannot come back
  enum class ByOthers { kRepaired, kNot, kUnlogged } by_others = ByOthers::kRepaired;

  [[nodiscard]] bool IsOfRules() const {
    const std::string_view words(command);
    return words.starts_with("nft ") || words.starts_with("iptables ") ||
           words.starts_with("ip6tables ");
  }
};

using ByOthers = Damage::ByOthers;

constexpr const char* kDeleteFirstRule =
    "nft delete rule $table postrouting handle "
    "$(nft -a list chain $table postrouting | sed -n 's/.*[^{] # handle //p' | head -1)";

std::vector<Damage> Damages() {
  return {
      {"FlushRuleset", "nft flush ruleset", "nomad-bridge", true},
      {"DeleteTable", "nft delete table $table", "nomad-bridge"},
      {"FlushTable", "nft flush table $table", "chain"},
      {"FlushChain", "nft flush chain $table forward", "forward"},
      {"DeleteRule", kDeleteFirstRule, "postrouting"},
      {"DeletePort",
       "nft delete element $table port4 '{ tcp . 8080 }'",
       "8080",
       false,
       ByOthers::kNot},
      {"DeleteAddress",
       "nft delete element $table alloc4 \"{ $address }\"",
       "alloc4",
       false,
       ByOthers::kNot},
      {"DeleteBridgeElement",
       "nft delete element $table bridges '{ nomad }'",
       "bridges",
       false,
       ByOthers::kUnlogged},
      {"FlushMap", "nft flush map $table port4", "port4", false, ByOthers::kNot},
      {"FlushIptables", "iptables -F", "FORWARD", true},
      {"FlushCniForward", "iptables -F CNI-FORWARD", "CNI-FORWARD"},
      {"FlushForward", "iptables -F FORWARD", "FORWARD"},
      {"FlushIp6tables", "ip6tables -F CNI-FORWARD", "CNI-FORWARD"},
      {"DeleteBridge", "ip link delete nomad", "'nomad'"},
      {"BridgeDown", "ip link set nomad down", "'nomad'"},
      {"TakePortOut", "ip link set $veth nomaster", "veth", false, ByOthers::kNot},
      {"RemoveGateway", "ip address delete 172.26.64.1/20 dev nomad", "172.26.64.1/20"},
      {"RemoveIpv6Gateway", "ip address delete fd00:26::1/64 dev nomad", "fd00:26::1/64"},
      {"Ipv6ForwardingOff", "echo 0 > /proc/sys/net/ipv6/conf/all/forwarding", "forwarding"},
      {"InterfaceForwardingOff",
       "echo 0 > /proc/sys/net/ipv4/conf/nomad/forwarding",
       "conf/nomad/forwarding"},
      {"AdvertisementsOn", "echo 1 > /proc/sys/net/ipv6/conf/nomad/accept_ra", "accept_ra"},
      {"HairpinOff", "bridge link set dev $veth hairpin off", "hairpin", false, ByOthers::kNot},
      {"ForwardingOff", "echo 0 > /proc/sys/net/ipv4/ip_forward", "ip_forward"},
      {"RemoveLease", "rm $leases/$address", "lease", false, ByOthers::kNot},
      {"WipeDataDir", "rm -r $leases", "lease", false, ByOthers::kNot},
  };
}

class HostSide : public World, public ::testing::WithParamInterface<Damage> {
 protected:
  void SetUp() override {
    other_ = As("other", AddContainer("other"));
    UseOnce(other_config_, other_);
    add_ = Attach(config_);
    if (!GetParam().takes_admin_rules) {
      host().Must({"iptables", "-A", "NOMAD-ADMIN", "-s", "203.0.113.0/24", "-j", "DROP"});
    }
    host().Must({"iptables", "-P", "FORWARD", "DROP"});
    before_ = TakeSnapshot();
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "page");
    Serve(container(), Protocol::kUdp, {"0.0.0.0"}, 53, "name");
  }

  void Break() {
    Must({.argv = {"sh", "-e", "-c", GetParam().command},
          .variables = {{"table", Cat("inet ", kTable)},
                        {"leases", kLeases},
                        {"address", AddressOf(add_)},
                        {"veth", HostVethOf(add_)}}});
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

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")}, DualStack());
  const json other_config_ = Publish({Port(9090, 80)}, DualStack());
  Variables other_;
  json add_;
  Snapshot before_;
};

TEST_P(HostSide, IsRepairedByTheAddOfAnother) {
  Break();

  const Outcome add = MustRun("ADD", other_config_, other_);

  EXPECT_NE(AddressOf(add.json), AddressOf(add_)) << "two have the same address";
  Detach(other_config_, other_);
  if (GetParam().by_others == ByOthers::kRepaired) {
    EXPECT_THAT(add.err, HasSubstr("repaired"));
    EXPECT_THAT(add.err, HasSubstr(GetParam().reported));
  }
  if (GetParam().by_others == ByOthers::kNot) {
    MustCheck(config_, add_);  // its owner's affair, nobody has taken it for repaired
  }
  ExpectWorks();
  EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
}

TEST_P(HostSide, IsRepairedByCheck) {
  Break();

  const Outcome check = MustCheck(config_, add_);
  EXPECT_THAT(check.err, HasSubstr("repaired"));
  EXPECT_THAT(check.err, HasSubstr(GetParam().reported));
  EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
  ExpectWorks();
  EXPECT_EQ(Check(config_, add_).err, "") << "there was something left to repair";
}

TEST_P(HostSide, IsRepairedByGcIfItIsOfTheRules) {
  if (GetParam().IsOfRules()) {
    Break();
    const Outcome gc = MustRun("GC", WithValid({"alloc-1"}, config_));
    EXPECT_THAT(gc.err, HasSubstr(GetParam().reported));
    EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
  }
}

TEST_P(HostSide, IsOnlyReportedByCheckWithRepairOff) {
  Break();
  const Snapshot broken = TakeSnapshot();
  json no_repair = config_;
  no_repair["repairOnCheck"] = false;

  const Outcome check = Check(no_repair, add_);

  EXPECT_EQ(ErrorCode(check), 103) << check;
  EXPECT_THAT(Details(check), HasSubstr(GetParam().reported));
  EXPECT_TRUE(Unchanged(broken, TakeSnapshot()));
}

INSTANTIATE_TEST_SUITE_P(Damages, HostSide, ::testing::ValuesIn(Damages()), kNameOf);

class Attachment : public World {};

TEST_F(Attachment, NeedsNoRepairByCheck) {
  const json config = Publish({Port(8080, 80)});
  const json add = Attach(config);
  const Snapshot before = TakeSnapshot();
  const Outcome check = MustCheck(config, add);
  EXPECT_EQ(check.err, "");
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

// A lease file that is gone must not give the address of a living allocation away, were it the last one.
TEST_F(Attachment, KeepsItsAddressWhenTheLeaseIsLost) {
  const json config = Config({{"ipam", {{"subnet", "10.9.0.0/30"}}}});
  const json first = Attach(config);
  ASSERT_EQ(AddressOf(first), "10.9.0.2");
  EnsureFileGone(Cat(kLeases, "/10.9.0.2"));

  const Outcome second = RunPlugin("ADD", config, As("other", AddContainer("other")));

  EXPECT_EQ(ErrorCode(second), 101) << second;
  EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{"10.9.0.2", "alloc-1"}}));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

TEST_F(Attachment, KeepsItsConnectionsThroughCommandsOfOthersAndRepairs) {
  const json config = Publish({Port(8080, 80)});
  const json add = Attach(config);
  const Server page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  std::optional<Connection> connection =
      Connection::Open(outside(), {.to = kHostIp4, .port = 8080});
  ASSERT_TRUE(connection.has_value());
  const json other_config = Publish({Port(9090, 80)});
  const Variables other = As("other", AddContainer("other"));
  host().Must({"iptables", "-P", "FORWARD", "DROP"});

  EXPECT_TRUE(connection->Echoes("before\n"));
  const json other_add = Attach(other_config, other);
  EXPECT_TRUE(connection->Echoes("after another's ADD\n"));
  EXPECT_EQ(Check(other_config, other_add, other).exit_code, 0);
  EXPECT_TRUE(connection->Echoes("after another's CHECK\n"));
  Attach(other_config, other);
  EXPECT_TRUE(connection->Echoes("after another's takeover\n"));
  Detach(other_config, other);
  EXPECT_TRUE(connection->Echoes("after another's DEL\n"));
  MustRun("GC", WithValid({"alloc-1"}));
  EXPECT_TRUE(connection->Echoes("after a GC that lists it\n"));
  host().Must({"nft", "flush", "ruleset"});
  host().Must({"iptables", "-P", "FORWARD", "DROP"});
  EXPECT_EQ(Check(config, add).exit_code, 0);
  EXPECT_TRUE(connection->Echoes("after a flush and its repair\n"));
  host().Must({"ip", "link", "delete", "nomad"});
  Attach(other_config, other);
  EXPECT_TRUE(connection->Echoes("after a deleted bridge and its repair\n"));
}

}  // namespace
}  // namespace nomad_bridge::test
