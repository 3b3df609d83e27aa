// Each damage of the table (repair_damages.cc) is repaired by `reconcile`. One function repairs for
// all commands, so a few damages show for each other one that it calls that function, and says the
// same: ADD of another, CHECK, GC, the timer, doctor, inspect.
#include "tests/plugin/repair_damages.h"

#include <regex>

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

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
    const std::string text =
        std::regex_replace(GetParam().text, std::regex("VETH"), HostVethOf(add_));
    return std::regex_replace(text, std::regex("ADDRESS"), AddressOf(add_));
  }

  [[nodiscard]] auto Repaired() const { return HasSubstr(Cat("repaired: ", Text())); }

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

TEST_P(Damaged, IsRepairedByReconcile) {
  Break();
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(Repaired())));
  ExpectRepaired();
  EXPECT_THAT(Output("reconcile -dry-run"), HasSubstr("; nothing to repair\n"));
}

INSTANTIATE_TEST_SUITE_P(Every, Damaged, ::testing::ValuesIn(Damages()), kNameOf);

// One of each kind: all rules, an element, a rule of iptables, a link, a setting, a file.
std::vector<Damage> SomeDamages() {
  const std::set<std::string_view> names = {"FlushRuleset",
                                            "DeletePort",
                                            "FlushForward",
                                            "DeleteBridge",
                                            "LocalhostFilter",
                                            "RemoveLease"};
  std::vector<Damage> damages = Damages();
  std::erase_if(damages, [&](const Damage& damage) { return !names.contains(damage.name); });
  return damages;
}

class DamagedOnce : public Damaged {};

TEST_P(DamagedOnce, IsRepairedByTheAddOfAnother) {
  Break();

  const Outcome add = MustRun("ADD", other_config_, other_);

  EXPECT_NE(AddressOf(add.json), AddressOf(add_)) << "two have the same address";
  Detach(other_config_, other_);
  EXPECT_EQ(add.err, "");
  if (GetParam().IsOfOneAllocation()) {
    EXPECT_THAT(MustCheck(config_, add_), Err(Repaired()))
        << "its owner's affair, and nobody has taken it for repaired";
  }
  ExpectRepaired();
}

TEST_P(DamagedOnce, IsRepairedByCheck) {
  Break();
  EXPECT_THAT(MustCheck(config_, add_), Err(Repaired()));
  ExpectRepaired();
  EXPECT_EQ(Check(config_, add_).err, "") << "there was something left to repair";
}

// By all that only look, in the same words.
TEST_P(DamagedOnce, IsReportedAndLeftAsItIs) {
  Break();
  // nft 1.0.6 prints a dormant table's flags in JSON as what happens to be in memory there.
  const bool is_readable = GetParam().name != "DormantTable";
  const Snapshot damage = is_readable ? TakeSnapshot() : Snapshot();

  EXPECT_THAT(RunLine("reconcile -dry-run"), Exits(1, Out(HasSubstr(Text()))));

  json no_repair = config_;
  no_repair["repairOnCheck"] = false;
  EXPECT_THAT(Check(no_repair, add_), Fails(103, Details(HasSubstr(Text()))));

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

INSTANTIATE_TEST_SUITE_P(Some, DamagedOnce, ::testing::ValuesIn(SomeDamages()), kNameOf);

class DamagedRules : public Damaged {};

TEST_P(DamagedRules, AreRepairedByGc) {
  Break();
  EXPECT_THAT(MustRun("GC", WithValid({"alloc-1"}, config_)), Err(Repaired()));
  ExpectRepaired();
}

std::vector<Damage> SomeRules() {
  std::vector<Damage> damages = SomeDamages();
  std::erase_if(damages, [](const Damage& damage) { return !damage.IsOfRules(); });
  return damages;
}

INSTANTIATE_TEST_SUITE_P(Some, DamagedRules, ::testing::ValuesIn(SomeRules()), kNameOf);

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

TEST_P(DamagedRecord, IsReportedAndDoesNotDisturbTheAllocation) {
  EXPECT_THAT(RunLine("doctor records"), Exits(1, Out(HasSubstr(text_))));
  EXPECT_THAT(RunLine(Cat("inspect ", HostVethOf(add_))).out,
              HasSubstr(GetParam().name == "Missing" ? "unrecorded" : "unreadable"));

  // A foreign change lets each of these compare more.
  host().Must(Words("nft add table inet foreign"));
  MustRun("ADD", other_config_, other_);
  Detach(other_config_, other_);
  EXPECT_EQ(RunLine("reconcile").exit_code, 0);
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
