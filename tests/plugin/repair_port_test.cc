// Whose host port it is: live attachments keep theirs, stale ones do not.

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class OwnedPort : public World {
 protected:
  void SetUp() override {
    owner_ = &AddContainer("owner");
    add_ = Attach(config_, As("owner", *owner_, NomadArgs("billing", "5f3c1a2b")));
    late_ = &AddContainer("late");
    late_->Must({"ip", "link", "set", "lo", "up"});  // which ADD does, and does not undo
  }

  void OwnerDisappears() { KillContainer(*owner_); }

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")});
  Node* owner_ = nullptr;
  Node* late_ = nullptr;
  json add_;
};

TEST_F(OwnedPort, OfALiveOwnerIsRefusedToAnotherNetworkToo) {
  const json config = Publish(
      {Port(8080, 80)},
      Config({{"name", "second"}, {"bridge", "second"}, {"ipam", {{"subnet", "10.9.0.0/24"}}}}));
  const Outcome add = RunPlugin("ADD", config, As("late", *late_));
  EXPECT_EQ(ErrorCode(add), 102) << add;
  EXPECT_THAT(MsgAndDetails(add), AllOf(HasSubstr("'billing'"), HasSubstr("network 'nomad'")));
}

TEST_F(OwnedPort, OfAStaleOwnerIsTakenOverAtOnce) {
  OwnerDisappears();

  const Outcome add = MustRun("ADD", Publish({Port(8080, 80)}), As("late", *late_));

  EXPECT_THAT(add.err, HasSubstr("'owner'"));
  const Server page = Server::Start(*late_, Protocol::kTcp, "0.0.0.0", 80, "late");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "late");
  // All of the stale attachment is gone, not only what was in the way.
  EXPECT_FALSE(HasRecord("owner"));
  EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{AddressOf(add.json), "late"}}));
  EXPECT_THAT(TakeSnapshot().Lines(), Not(HasSubstr("owner")));
}

TEST_F(OwnedPort, TakenOverSurvivesTheLateDelOfItsStaleOwner) {
  OwnerDisappears();
  Attach(Publish({Port(8080, 80)}), As("late", *late_));
  const Snapshot before = TakeSnapshot();

  Detach(WithResult(config_, add_), {{"CNI_CONTAINERID", "owner"}, {"CNI_NETNS", ""}});

  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  const Server page = Server::Start(*late_, Protocol::kTcp, "0.0.0.0", 80, "late");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "late");
}

TEST_F(OwnedPort, OfAStaleOwnerIsTakenOverAlsoWithoutItsRecord) {
  OwnerDisappears();
  EnsureFileGone(RecordOf("owner"));

  Attach(config_, As("late", *late_));

  const Server page = Server::Start(*late_, Protocol::kTcp, "0.0.0.0", 80, "late");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "late");
}

TEST_F(OwnedPort, OfALiveOwnerIsKeptAlsoWithoutItsRecord) {
  EnsureFileGone(RecordOf("owner"));
  const Outcome add = MustRefuse(102, config_, As("late", *late_));

  EXPECT_THAT(MsgAndDetails(add), HasSubstr("job=billing"));
}

TEST_F(OwnedPort, IsFreeAfterItsOwnersDel) {
  Detach(config_, As("owner", *owner_));
  EXPECT_EQ(MustRun("ADD", config_, As("late", *late_)).err, "");
}

// After a flush no element has the port; by the records it still has its owner.
TEST_F(OwnedPort, StaysWithItsOwnerAfterAFlush) {
  host().Must({"nft", "flush", "ruleset"});

  const Outcome add = RunPlugin("ADD", config_, As("late", *late_));

  EXPECT_EQ(ErrorCode(add), 102) << add;
  EXPECT_THAT(Msg(add), HasSubstr("'billing'"));
}

}  // namespace
}  // namespace nomad_bridge::test
