// The table of damages: what somebody breaks on the host's side, who sees it, who repairs it, and
// that all of them use the same words. A column per command: ADD of another, CHECK, GC, reconcile,
// the timer, doctor, inspect.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

// What the ADD of another allocation does about it: repairs it and says so, or leaves it to its
// owner's CHECK.
enum class ByOthers { kSaid, kNot };

// Happens to an allocation with ports 8080/tcp and 8053/udp, on a host that is shared with another.
struct Damage : Named {
  // For sh in the host: $table is our table, $leases the data dir's, $address and $veth the
  // allocation's.
  const char* command;
  std::string text;   // in every column; VETH and ADDRESS are the allocation's
  std::string check;  // of doctor's
  ByOthers by_others = ByOthers::kSaid;
  const char* before = ":";        // for sh, before the first ADD; $binary is the built one
  bool takes_admin_rules = false;  // the operator's own rules go with it, and cannot come back
  const char* firewall = "none";   // beside us

  [[nodiscard]] bool IsOfRules() const {
    const std::string_view words(command);
    return words.starts_with("nft ") || words.starts_with("iptables ") ||
           words.starts_with("ip6tables ");
  }
};

constexpr const char* kDeleteFirstRule =
    "nft delete rule $table postrouting handle "
    "$(nft -a list chain $table postrouting | sed -n 's/.*[^{] # handle //p' | head -1)";
// Closed, but for what ExpectRepaired() asks.
constexpr const char* kPolicies = R"(
mkdir /run/policy.d
echo '{"version": 1, "policies": [{"name": "open", "to": {"namespace": "prod"}, "allow": [{"from": ["outside"]}]}]}' > /run/policy.d/open.json
"$binary" policy apply /run/policy.d)";
constexpr const char* kTableOfOurs = "table.intact";
constexpr const char* kBridge = "bridge.intact";
constexpr const char* kSysctl = "sysctl.ip_forward";
constexpr const char* kLocalhost = "sysctl.route_localnet";
constexpr const char* kPort = "bridge.ports";

std::vector<Damage> Damages() {
  using enum ByOthers;
  const std::string gone = "table inet nomad-bridge is missing";
  const std::string changed = " in table inet nomad-bridge was changed";
  const std::string filter = "the tc filter of 'nomad'";
  return {
      {"FlushRuleset", "nft flush ruleset", gone, kTableOfOurs, kSaid, ":", true},
      {"DeleteTable", "nft delete table $table", gone, kTableOfOurs},
      {"FlushTable", "nft flush table $table", "chain forward" + changed, kTableOfOurs},
      {"FlushChain", "nft flush chain $table forward", "chain forward" + changed, kTableOfOurs},
      {"DeleteRule", kDeleteFirstRule, "chain postrouting" + changed, kTableOfOurs},
      {"DormantTable",
       "nft \"add table $table { flags dormant; }\"",
       "table inet nomad-bridge is dormant",
       kTableOfOurs},
      {"DeletePortFilter",
       "nft delete table bridge nomad-bridge",
       "table bridge nomad-bridge is missing",
       kTableOfOurs},
      {"DeletePort",
       "nft delete element $table port4 '{ tcp . 8080 }'",
       "tcp . 8080 in port4 of VETH is missing",
       kTableOfOurs,
       kNot},
      {"DeleteAddress",
       "nft delete element $table alloc4 \"{ $address }\"",
       "ADDRESS in alloc4 of VETH is missing",
       kTableOfOurs,
       kNot},
      {"DeleteSource",
       "nft delete element bridge nomad-bridge ports \"{ $veth }\"",
       "VETH in ports of VETH is missing",
       kTableOfOurs,
       kNot},
      {"DeleteBridgeElement",
       "nft delete element $table bridges '{ nomad }'",
       "nomad in bridges is missing",
       kTableOfOurs},
      {"FlushMap",
       "nft flush map $table port4",
       "tcp . 8080 in port4 of VETH is missing",
       kTableOfOurs,
       kNot},
      {"FlushPolicyBaseChain",
       "nft flush chain $table admit",
       "chain admit" + changed,
       kTableOfOurs,
       kSaid,
       kPolicies},
      {"DeletePolicyBaseChain",
       "nft delete chain $table admit",
       "chain admit" + changed,
       kTableOfOurs,
       kSaid,
       kPolicies},
      {"FlushPolicyChain",
       "nft flush chain $table judge",
       "chain judge" + changed,
       kTableOfOurs,
       kSaid,
       kPolicies},
      {"FlushPolicyOfAllocations",
       "nft flush chain $table $(nft list chains | sed -n 's/.*chain \\(in-[0-9a-f]*\\) .*/\\1/p')",
       "chain in-",
       kTableOfOurs,
       kSaid,
       kPolicies},
      {"DeletePolicyElement",
       "nft delete element $table in4 \"{ $address }\"",
       "ADDRESS in in4 of VETH is missing",
       kTableOfOurs,
       kNot,
       kPolicies},
      {"FlushIptables",
       "iptables -F",
       "the jump from FORWARD to CNI-FORWARD is missing in table ip filter",
       "static_rules",
       kSaid,
       ":",
       true},
      {"FlushCniForward",
       "iptables -F CNI-FORWARD",
       "the accept of our mark in CNI-FORWARD is missing in table ip filter",
       "static_rules"},
      {"FlushForward",
       "iptables -F FORWARD",
       "the jump from FORWARD to CNI-FORWARD is missing in table ip filter",
       "static_rules"},
      {"FlushIp6tables",
       "ip6tables -F CNI-FORWARD",
       "the accept of our mark in CNI-FORWARD is missing in table ip6 filter",
       "static_rules"},
      {"FlushIptablesLegacy",
       "iptables-legacy -F CNI-FORWARD",
       "chain CNI-FORWARD of /usr/sbin/iptables-legacy has no rule 'nomad-bridge: ",
       "static_rules",
       kSaid,
       "iptables-legacy -P FORWARD DROP"},
      {"FirewalldZone",
       "firewall-cmd --zone=trusted --remove-interface=nomad",
       "'nomad' is in no zone of firewalld, which rejects what comes from it",
       "firewalld.zone",
       kSaid,
       ":",
       false,
       "firewalld"},
      {"DeleteBridge", "ip link delete nomad", "bridge 'nomad' is missing", kBridge},
      {"BridgeDown", "ip link set nomad down", "bridge 'nomad' is down", kBridge},
      {"RemoveGateway",
       "ip address delete 172.26.64.1/20 dev nomad",
       "address 172.26.64.1/20 is missing on 'nomad'",
       kBridge},
      {"RemoveIpv6Gateway",
       "ip address delete fd00:26::1/64 dev nomad",
       "address fd00:26::1/64 is missing on 'nomad'",
       kBridge},
      {"AdvertisementsOn",
       "echo 1 > /proc/sys/net/ipv6/conf/nomad/accept_ra",
       "net/ipv6/conf/nomad/accept_ra is on",
       kBridge},
      {"ForwardingOff",
       "echo 0 > /proc/sys/net/ipv4/ip_forward",
       "net/ipv4/ip_forward is 0",
       kSysctl},
      {"InterfaceForwardingOff",
       "echo 0 > /proc/sys/net/ipv4/conf/nomad/forwarding",
       "net/ipv4/conf/nomad/forwarding is 0",
       kSysctl},
      {"Ipv6ForwardingOff",
       "echo 0 > /proc/sys/net/ipv6/conf/all/forwarding",
       "net/ipv6/conf/all/forwarding is 0",
       kSysctl},
      {"RouteLocalnetOff",
       "echo 0 > /proc/sys/net/ipv4/conf/nomad/route_localnet",
       "net/ipv4/conf/nomad/route_localnet is 0",
       kLocalhost},
      {"LocalhostFilter", "tc filter delete dev nomad ingress", filter, kLocalhost},
      {"LocalhostQdisc", "tc qdisc delete dev nomad clsact", filter, kLocalhost},
      {"TakePortOut",
       "ip link set $veth nomaster",
       "VETH is no port of bridge 'nomad'",
       kPort,
       kNot},
      {"HostVethDown", "ip link set $veth down", "VETH is down", kPort, kNot},
      {"HairpinOff",
       "bridge link set dev $veth hairpin off",
       "the hairpin mode of VETH was changed",
       kPort,
       kNot},
      {"Isolated",
       "bridge link set dev $veth isolated on",
       "the isolation of VETH was changed",
       kPort,
       kNot},
      {"RemoveLease",
       "rm $leases/$address",
       "the lease of ADDRESS is missing",
       "leases.missing",
       kNot},
      {"WipeDataDir", "rm -r $leases", "the lease of ADDRESS is missing", "leases.missing"},
  };
}

class Damaged : public CliWorld, public ::testing::WithParamInterface<Damage> {
 protected:
  void SetUp() override {
    Must({.argv = {"sh", "-e", "-c", GetParam().before},
          .variables = {{"binary", PluginCommand("", "").argv.front()},
                        {"CNI_COMMAND", std::nullopt}}});
    StartFirewall(GetParam().firewall);
    const std::string labels = "IgnoreUnknown=true;NOMAD_NAMESPACE=prod;NOMAD_JOB_ID=web";
    other_ = As("other", AddContainer("other"), labels);
    UseOnce(other_config_, other_);
    add_ = Attach(config_, {{"CNI_ARGS", labels}});
    if (!GetParam().takes_admin_rules) {
      host().Must({"iptables", "-A", "NOMAD-ADMIN", "-s", "203.0.113.0/24", "-j", "DROP"});
    }
    host().Must({"iptables", "-P", "FORWARD", "DROP"});
    before_ = TakeSnapshot();
    Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
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

  [[nodiscard]] std::string Text() const {
    std::string text = GetParam().text;
    for (const auto& [name, value] :
         {std::pair("VETH", HostVethOf(add_)), std::pair("ADDRESS", AddressOf(add_))}) {
      for (std::size_t at; (at = text.find(name)) != text.npos;) {
        text.replace(at, std::string_view(name).size(), value);
      }
    }
    return text;
  }

  void ExpectRepaired() {
    EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
    // First: it has the patience to look for a neighbour again, behind a bridge that was down.
    EXPECT_TRUE(Ping(container(), kOutsideIp4));
    EXPECT_TRUE(Ping(container(), kOutsideIp6));
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
    EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "page");
    EXPECT_EQ(TcpText(host(), "127.0.0.1", 8080), "page");
    EXPECT_EQ(UdpText(outside(), kHostIp4, 8053), "name");
  }

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")}, DualStack());
  const json other_config_ = Publish({Port(9090, 80)}, DualStack());
  Variables other_;
  json add_;
  Snapshot before_;
};

TEST_P(Damaged, IsRepairedByTheAddOfAnother) {
  Break();

  const Outcome add = MustRun("ADD", other_config_, other_);

  EXPECT_NE(AddressOf(add.json), AddressOf(add_)) << "two have the same address";
  Detach(other_config_, other_);
  if (GetParam().by_others == ByOthers::kSaid) {
    EXPECT_THAT(add.err, HasSubstr(Cat("repaired: ", Text())));
  } else {
    EXPECT_EQ(add.err, "");
    EXPECT_THAT(MustCheck(config_, add_).err, HasSubstr(Cat("repaired: ", Text())))
        << "its owner's affair, and nobody has taken it for repaired";
  }
  ExpectRepaired();
}

TEST_P(Damaged, IsRepairedByCheck) {
  Break();
  EXPECT_THAT(MustCheck(config_, add_).err, HasSubstr(Cat("repaired: ", Text())));
  ExpectRepaired();
  EXPECT_EQ(Check(config_, add_).err, "") << "there was something left to repair";
}

TEST_P(Damaged, IsRepairedByReconcile) {
  Break();
  const Outcome outcome = RunLine("reconcile");
  EXPECT_EQ(outcome.exit_code, 0) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr(Cat("repaired: ", Text())));
  ExpectRepaired();
  EXPECT_THAT(Output("reconcile -dry-run"), HasSubstr("; nothing to repair\n"));
}

TEST_P(Damaged, IsRepairedByTheTimer) {
  ASSERT_EQ(RunLine("reconcile -if-changed").exit_code, 0);
  ASSERT_EQ(Output("reconcile -if-changed"), "nothing has changed\n");
  Break();
  const Outcome outcome = RunLine("reconcile -if-changed");
  EXPECT_EQ(outcome.exit_code, 0) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr(Cat("repaired: ", Text())));
  ExpectRepaired();
}

// By all that only look, in the same words.
TEST_P(Damaged, IsReportedAndLeftAsItIs) {
  Break();
  // nft 1.0.6 prints a dormant table's flags in JSON as what happens to be in memory there.
  const bool is_readable = GetParam().name != "DormantTable";
  const Snapshot damage = is_readable ? TakeSnapshot() : Snapshot();

  const Outcome dry_run = RunLine("reconcile -dry-run");
  EXPECT_EQ(dry_run.exit_code, 1) << dry_run;
  EXPECT_THAT(dry_run.out, HasSubstr(Text()));

  json no_repair = config_;
  no_repair["repairOnCheck"] = false;
  const Outcome check = Check(no_repair, add_);
  EXPECT_EQ(ErrorCode(check), 103) << check;
  EXPECT_THAT(Details(check), HasSubstr(Text()));

  std::string failures;
  const json doctor = RunLine("doctor -json").json;
  for (const json& each : doctor.at("checks")) {
    if (each.at("check") == GetParam().check && each.at("verdict") == "fail") {
      failures += each.at("what").get<std::string>();
    }
  }
  EXPECT_THAT(failures, AnyOf(HasSubstr(Text()), HasSubstr(" more)")));

  const json inspection = RunLine(Cat("inspect -json ", HostVethOf(add_))).json;
  EXPECT_THAT(At(inspection, "/attachments/0/diagnosis/host").dump(), HasSubstr(Text()));

  EXPECT_TRUE(!is_readable || Unchanged(damage, TakeSnapshot()));
}

INSTANTIATE_TEST_SUITE_P(Every, Damaged, ::testing::ValuesIn(Damages()), kNameOf);

class DamagedRules : public Damaged {};

TEST_P(DamagedRules, AreRepairedByGc) {
  Break();
  const Outcome gc = MustRun("GC", WithValid({"alloc-1"}, config_));
  EXPECT_THAT(gc.err, HasSubstr(Cat("repaired: ", Text())));
  ExpectRepaired();
}

std::vector<Damage> DamagesOfRules() {
  std::vector<Damage> damages = Damages();
  std::erase_if(damages, [](const Damage& damage) { return !damage.IsOfRules(); });
  return damages;
}

INSTANTIATE_TEST_SUITE_P(Every, DamagedRules, ::testing::ValuesIn(DamagesOfRules()), kNameOf);

// ---- the record, without which nobody but its own CHECK knows what else there has to be

class DamagedRecord : public CliWorld, public ::testing::WithParamInterface<Named> {
 protected:
  void SetUp() override {
    UseOnce(other_config_, other_);
    add_ = Attach(config_);
    ForgetAge("alloc-1");
    Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
    before_ = TakeSnapshot();
    if (GetParam().name == "Missing") {
      EnsureFileGone(RecordOf("alloc-1"));
    } else {
      ReplaceFile(RecordOf("alloc-1"), "{\"network\":");
    }
    lost_ = TakeSnapshot();
  }

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")}, DualStack());
  const json other_config_ = Publish({Port(9090, 80)}, DualStack());
  const Variables other_ = As("other", AddContainer("other"));
  const std::string text_ = "container 'alloc-1' has no readable record";
  json add_;
  Snapshot before_;
  Snapshot lost_;
};

TEST_P(DamagedRecord, IsRepairedByCheck) {
  json no_repair = config_;
  no_repair["repairOnCheck"] = false;
  EXPECT_THAT(Details(Check(no_repair, add_)), HasSubstr(text_));
  EXPECT_TRUE(Unchanged(lost_, TakeSnapshot()));

  EXPECT_THAT(MustCheck(config_, add_), Err(HasSubstr(Cat("repaired: ", text_))));
  EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
}

TEST_P(DamagedRecord, IsReportedAndCostsTheAllocationNothing) {
  EXPECT_THAT(RunLine("doctor records"), Exits(1, Out(HasSubstr(text_))));
  EXPECT_THAT(RunLine(Cat("inspect ", HostVethOf(add_))).out,
              HasSubstr(GetParam().name == "Missing" ? "unrecorded" : "unreadable"));

  // A foreign change lets each of these compare more.
  host().Must(Words("nft add table inet foreign"));
  MustRun("ADD", other_config_, other_);
  Detach(other_config_, other_);
  EXPECT_EQ(RunLine("reconcile").exit_code, 0);
  EXPECT_EQ(RunLine("reconcile -if-changed").exit_code, 0);
  EXPECT_EQ(RunLine("gc").exit_code, 0);
  MustRun("GC", WithValid({"alloc-1"}, config_));
  host().Must(Words("nft delete table inet foreign"));

  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
  EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "page");
  // What reconcile rebuilds lacks what only the config says; CHECK knows that.
  std::filesystem::remove(RecordOf("alloc-1"));
  MustCheck(config_, add_);
  EXPECT_TRUE(Unchanged(before_, TakeSnapshot())) << "no element, link or lease has gone";
}

INSTANTIATE_TEST_SUITE_P(Of,
                         DamagedRecord,
                         ::testing::Values(Named{"Missing"}, Named{"Cut"}),
                         kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
