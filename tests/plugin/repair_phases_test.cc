// The phases of a record: others repair what is live, leave alone what a command is making or
// removing, and take back what a killed command left.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class Phases : public World {
 protected:
  Phases() { Attach(config_, As("other", AddContainer("other"))); }

  // As a command leaves it that is killed after its first write.
  static void SetPhase(const std::string& id, const std::string& phase) {
    json record = ReadRecord(id);
    for (json& part : record.at("parts")) {
      part = phase;
    }
    WriteRecord(id, record);
  }

  [[nodiscard]] bool HasElementsOf(const std::string& id) {
    return host().Must({"nft", "list", "table", "inet", "nomad-bridge"}).find(id) !=
           std::string::npos;
  }

  json config_ = Publish({Port(8080, 80)});
};

class UnfinishedPhase : public Phases, public ::testing::WithParamInterface<Named> {};

TEST_P(UnfinishedPhase, IsNotRepaired) {
  const json mine = Publish({Port(9090, 80)});
  const json add = Attach(mine);
  SetPhase("other", std::string(GetParam().name));
  host().Must({"nft", "flush", "ruleset"});

  MustCheck(mine, add);

  EXPECT_TRUE(HasElementsOf("alloc-1"));
  EXPECT_FALSE(HasElementsOf("other"));
}

TEST_P(UnfinishedPhase, GivesItsPortToTheNextAdd) {
  SetPhase("other", std::string(GetParam().name));
  Attach(config_);
  ExpectPublished(container());
  EXPECT_FALSE(HasElementsOf("other"));
  EXPECT_EQ(FindFile(RecordOf("other")), std::nullopt);
  EXPECT_EQ(Leases().size(), 1U) << "of the new one alone";
}

TEST_P(UnfinishedPhase, IsReclaimedByGc) {
  SetPhase("other", std::string(GetParam().name));
  MustRun("GC", Config());
  EXPECT_EQ(FindFile(RecordOf("other")), std::nullopt);
  EXPECT_FALSE(HasElementsOf("other"));
}

TEST_P(UnfinishedPhase, FailsCheck) {
  const json add = Attach(config_ = Publish({Port(9090, 80)}));
  SetPhase("alloc-1", std::string(GetParam().name));
  EXPECT_THAT(Check(config_, add), Exits(1, Details(HasSubstr("was killed"))));
}

INSTANTIATE_TEST_SUITE_P(Of,
                         UnfinishedPhase,
                         ::testing::Values(Named{"making"}, Named{"leaving"}),
                         kNameOf);

TEST_F(Phases, AreLiveOnceAddHasSucceeded) {
  const json record = ReadRecord("other");
  for (const auto& [part, phase] : record.at("parts").items()) {
    EXPECT_EQ(phase, "live") << part;
  }
}

TEST_F(Phases, RefusedAddStillRepairsOthers) {
  const Snapshot before = TakeHostSnapshot();
  host().Must({"nft", "flush", "ruleset"});
  EXPECT_THAT(RunPlugin("ADD", config_),
              Exits(1, Msg(HasSubstr("host port tcp 8080 is taken by"))));
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

// Of an attachment whose record and lease are lost, elements are left: they name an address that
// the next one gets.
class LostRecord : public World {
 protected:
  LostRecord() {
    Node& gone = AddContainer("gone");
    address_ = AddressOf(Attach(Publish({Port(8080, 80)}), As("gone", gone)));
    KillContainer(gone);
    fs::remove_all(kRecords);
    fs::remove_all(kLeases);
  }

  std::string address_;
};

TEST_F(LostRecord, LeavesNoPortToTheNextOwnerOfItsAddress) {
  ASSERT_EQ(AddressOf(Attach(Publish({Port(9090, 80)}))), address_);
  Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "page");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 9090), "page");
  EXPECT_EQ(Elements("port4").size(), 1U);
  EXPECT_THAT(host().Must({"nft", "list", "ruleset"}), Not(HasSubstr("id=gone")));
}

TEST_F(LostRecord, LeavesNothingAfterGc) {
  MustRun("GC", WithValid({}));
  EXPECT_EQ(Elements("port4"), json::array());
  EXPECT_EQ(Elements("alloc4"), json::array());
}

// The owner's link is still there, but the address is another's by now.
TEST_F(Phases, DecideWhoseElementsOfAnAddressStay) {
  Attach(Config());
  host().Must({"ip", "link", "add", "veth0123", "type", "bridge"});
  host().Must(
      Words(Cat("nft add element inet nomad-bridge port4 { tcp . 7777 comment \"veth0123 \" : ",
                AddressesOn(container(), "eth0").front().substr(0, 11),
                " . 80 }")));
  host().Must(
      Words("nft add element inet nomad-bridge alloc4 { 192.0.2.7 comment \"veth0123 \" }"));
  EXPECT_THAT(MustRun("GC", WithValid({"alloc-1", "other"})),
              Err(HasSubstr("removed: tcp . 7777 in port4 of veth0123 has no owner")));
  EXPECT_EQ(Elements("port4").size(), 1U) << "of the other";
  EXPECT_THAT(Elements("alloc4").dump(), HasSubstr("192.0.2.7"));
}

}  // namespace
}  // namespace nomad_bridge::test
