// Whose host port it is: the living keep theirs, the dead do not.
#include <gtest/gtest.h>

#include "tests/plugin/repair_world.h"

namespace nomad_bridge::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OwnedPort : public RepairWorld {
 protected:
  void SetUp() override {
    owner_ = &AddContainer("owner");
    add_ = MustAdd(config_, Nomad(As("owner", *owner_), "billing", "api", "5f3c1a2b"));
    late_ = &AddContainer("late");
    late_->Must({"ip", "link", "set", "lo", "up"});  // which ADD does, and does not undo
  }

  void OwnerDies() { KillContainer(*owner_); }

  const std::string config_ = Config({{"tcp", 8080, 80}, {"udp", 8053, 53}});
  Node* owner_ = nullptr;
  Node* late_ = nullptr;
  Outcome add_;
};

TEST_F(OwnedPort, OfTheLivingIsRefusedNamingJobGroupAndAllocation) {
  const Snapshot before = TakeSnapshot();
  // Only one of its ports is taken; nothing of it may be left.
  const std::string config = Config({{"tcp", 7070, 70}, {"tcp", 8080, 80}});

  const Outcome add = RunPlugin("ADD", config, As("late", *late_));

  EXPECT_EQ(ErrorCode(add), 102) << add;
  EXPECT_THAT(
      Msg(add),
      AllOf(
          HasSubstr("8080"), HasSubstr("'billing'"), HasSubstr("'api'"), HasSubstr("'5f3c1a2b'")));
  EXPECT_THAT(Details(add), HasSubstr("'owner'"));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(OwnedPort, OfTheLivingIsRefusedToAnotherNetworkToo) {
  const std::string config =
      Config({{"tcp", 8080, 80}},
             {{"name", "second"}, {"bridge", "second"}, {"ipam", {{"subnet", "10.9.0.0/24"}}}});
  const Outcome add = RunPlugin("ADD", config, As("late", *late_));
  EXPECT_EQ(ErrorCode(add), 102) << add;
  EXPECT_THAT(MsgAndDetails(add), AllOf(HasSubstr("'billing'"), HasSubstr("network 'nomad'")));
}

TEST_F(OwnedPort, OfTheDeadIsTakenOverAtOnce) {
  OwnerDies();

  const Outcome add = MustAdd(Config({{"tcp", 8080, 80}}), As("late", *late_));

  EXPECT_THAT(add.err, HasSubstr("'owner'"));
  const Server page = Server::Start(*late_, Protocol::kTcp, "0.0.0.0", 80, "late");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "late");
  // All that the dead one had has gone, not only what was in the way.
  EXPECT_FALSE(HasRecord("owner"));
  EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{AddressOf(add), "late"}}));
  EXPECT_THAT(TakeSnapshot().Lines(), ::testing::Not(HasSubstr("owner")));
}

TEST_F(OwnedPort, TakenOverIsNotHurtByTheDeadOnesLateDel) {
  OwnerDies();
  MustAdd(Config({{"tcp", 8080, 80}}), As("late", *late_));
  const Snapshot before = TakeSnapshot();

  MustDel(WithResult(config_, add_), {{"CNI_CONTAINERID", "owner"}, {"CNI_NETNS", ""}});

  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  const Server page = Server::Start(*late_, Protocol::kTcp, "0.0.0.0", 80, "late");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "late");
}

TEST_F(OwnedPort, OfTheDeadIsTakenOverAlsoIfTheirRecordIsLost) {
  OwnerDies();
  EnsureFileGone(Cat(kRecords, "/owner@eth0.json"));

  MustAdd(config_, As("late", *late_));

  const Server page = Server::Start(*late_, Protocol::kTcp, "0.0.0.0", 80, "late");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "late");
}

TEST_F(OwnedPort, OfTheLivingIsKeptAlsoIfTheirRecordIsLost) {
  EnsureFileGone(Cat(kRecords, "/owner@eth0.json"));
  const Snapshot before = TakeSnapshot();

  const Outcome add = RunPlugin("ADD", config_, As("late", *late_));

  EXPECT_EQ(ErrorCode(add), 102) << add;
  EXPECT_THAT(MsgAndDetails(add), HasSubstr("job=billing"));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(OwnedPort, IsFreeAfterItsOwnersDel) {
  MustDel(config_, As("owner", *owner_));
  const Outcome add = MustAdd(config_, As("late", *late_));
  EXPECT_EQ(add.err, "");
}

// After a flush nobody has the port in the kernel; by the records it is still its owner's.
TEST_F(OwnedPort, IsStillTheirsAfterAFlush) {
  host().Must({"nft", "flush", "ruleset"});

  const Outcome add = RunPlugin("ADD", config_, As("late", *late_));

  EXPECT_EQ(ErrorCode(add), 102) << add;
  EXPECT_THAT(Msg(add), HasSubstr("'billing'"));
}

}  // namespace
}  // namespace nomad_bridge::test
