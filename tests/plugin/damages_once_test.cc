// One function repairs for all commands: a few damages show for each other one than reconcile that
// it calls that function, and says the same. And what becomes of a lost record.
#include "tests/plugin/damage_world.h"

namespace nomad_bridge::test {
namespace {

class DamagedOnce : public DamageWorld {
 protected:
  // Before the damage, so that nothing but what the ADD of another repairs changes.
  void SetUp() override {
    DamageWorld::SetUp();
    UseOnce(other_config_, other_);
    before_ = TakeSnapshot();
    Break();
  }

  [[nodiscard]] auto Repaired() const {
    return HasSubstr(Cat("repaired: ", Filled(GetParam().says)));
  }
  // Others' ADDs leave it to its owner's CHECK; else they repair it without a word.
  [[nodiscard]] bool IsOfOneAllocation() const {
    return GetParam().says.find('$') != std::string::npos;
  }
  void ExpectRepaired() {
    RestoreOperatorsRules();
    ExpectHealed();
  }

  const json other_config_ = Publish({Port(9090, 80)}, DualStack());
  const Variables other_ = As("other", AddContainer("other"));
};

TEST_P(DamagedOnce, IsRepairedByTheAddOfAnother) {
  const Outcome add = MustRun("ADD", other_config_, other_);
  EXPECT_NE(AddressOf(add.json), address_) << "two have the same address";
  Detach(other_config_, other_);
  EXPECT_EQ(add.err, "");
  if (IsOfOneAllocation()) {
    EXPECT_THAT(MustCheck(ports_, result_), Err(Repaired()))
        << "its owner's affair, and nobody has taken it for repaired";
  }
  ExpectRepaired();
}

TEST_P(DamagedOnce, IsRepairedByCheck) {
  EXPECT_THAT(MustCheck(ports_, result_), Err(Repaired()));
  ExpectRepaired();
  EXPECT_EQ(Check(ports_, result_).err, "") << "there was something left to repair";
}

// One of each kind: all rules, an element, a rule of iptables, a link, a setting, a file.
INSTANTIATE_TEST_SUITE_P(Some,
                         DamagedOnce,
                         ::testing::ValuesIn(DamagesNamed({"FlushRuleset",
                                                           "DeletePort",
                                                           "DeletePolicyElement",
                                                           "FlushForward",
                                                           "DeleteBridge",
                                                           "LocalhostFilter",
                                                           "RemoveLease"})),
                         kNameOf);

class DamagedRules : public DamagedOnce {};

TEST_P(DamagedRules, AreRepairedByGc) {
  EXPECT_THAT(MustRun("GC", WithValid({"alloc-1"}, ports_)), Err(Repaired()));
  ExpectRepaired();
}

INSTANTIATE_TEST_SUITE_P(
    Some,
    DamagedRules,
    ::testing::ValuesIn(DamagesNamed({"FlushRuleset", "DeletePort", "FlushForward"})),
    kNameOf);

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
