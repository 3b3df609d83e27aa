// A full pool: addresses of stale attachments are reclaimed, live ones keep theirs.
#include <ctime>

#include <fcntl.h>
#include <sys/stat.h>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

// Five addresses, .2 to .6, and five allocations that have them.
class FullPool : public World {
 protected:
  void SetUp() override {
    for (int i = 1; i <= 5; ++i) {
      const std::string id = Cat("full-", i);
      Node& node = AddContainer(id);
      adds_[id] = Attach(config_, As(id, node));
      nodes_[id] = &node;
    }
    late_ = As("late", AddContainer("late"));
  }

  // Ends the namespace of `id`.
  void Die(const std::string& id) { KillContainer(*nodes_.at(id)); }

  // As if `id` had been added before this machine was started.
  void MoveBeforeBoot(const std::string& id) {
    const std::string path = RecordOf(id);
    json record = json::parse(FindFile(path).value());
    record["bootId"] = "00000000-0000-0000-0000-000000000000";
    ReplaceFile(path, record.dump());
    const std::string lease = Cat(kLeases, "/", AddressOf(adds_.at(id)));
    const timespec long_ago{.tv_sec = 1'000'000'000, .tv_nsec = 0};
    const timespec times[2] = {long_ago, long_ago};
    ASSERT_EQ(::utimensat(AT_FDCWD, lease.c_str(), times, 0), 0);
  }

  const json config_ = Config({{"ipam", {{"subnet", "10.9.0.0/29"}}}});
  std::map<std::string, json> adds_;
  std::map<std::string, Node*> nodes_;
  Variables late_;
};

TEST_F(FullPool, OfLiveAttachmentsIsAnErrorThatNamesTheNetworkAndTheRange) {
  const Outcome add = MustRefuse(101, config_, late_);

  EXPECT_THAT(MsgAndDetails(add), AllOf(HasSubstr("'nomad'"), HasSubstr("10.9.0.1-10.9.0.6")));
}

TEST_F(FullPool, ReclaimsAStaleAddressAndLeavesLiveAttachmentsAlone) {
  Die("full-3");

  const Outcome add = MustRun("ADD", config_, late_);

  EXPECT_EQ(AddressOf(add.json), AddressOf(adds_.at("full-3")));
  EXPECT_THAT(add.err, HasSubstr("full-3"));
  EXPECT_FALSE(HasRecord("full-3"));
  for (const char* const living : {"full-1", "full-2", "full-4", "full-5"}) {
    EXPECT_TRUE(Ping(*nodes_.at(living), kOutsideIp4)) << living;
    EXPECT_EQ(Leases().at(AddressOf(adds_.at(living))), living);
  }
}

TEST_F(FullPool, ReclaimsAllThatIsStaleNotJustOne) {
  Die("full-2");
  Die("full-4");
  Attach(config_, late_);
  EXPECT_FALSE(HasRecord("full-2"));
  EXPECT_FALSE(HasRecord("full-4"));
  EXPECT_EQ(Leases().size(), 4U);
}

// A container whose namespace file has gone but that still runs: its path is a name only.
TEST_F(FullPool, CountsANamespaceWithoutAPathAsLiveWhileAProcessIsInIt) {
  std::optional<Process> inside;
  nodes_.at("full-1")->Do([&] {
    inside.emplace(Process::Start({.argv = {"sleep", "60"}, .input = "", .variables = {}}));
  });
  const std::string veth = HostVethOf(adds_.at("full-1"));
  nodes_.at("full-1")->Kill();

  const Outcome refused = RunPlugin("ADD", config_, late_);
  EXPECT_EQ(ErrorCode(refused), 101) << refused;
  EXPECT_TRUE(HasInterface(host(), veth));

  inside.reset();
  EXPECT_TRUE(Soon([&] { return !HasInterface(host(), veth); }));
  EXPECT_EQ(AddressOf(Attach(config_, late_)), AddressOf(adds_.at("full-1")));
}

TEST_F(FullPool, ReclaimsWhatIsFromBeforeTheLastBoot) {
  Die("full-2");
  MoveBeforeBoot("full-2");
  EXPECT_EQ(AddressOf(Attach(config_, late_)), AddressOf(adds_.at("full-2")));
}

// The reference plugins' leases have no record with us. We cannot know whether they live.
TEST_F(FullPool, KeepsLeasesWithoutARecord) {
  Die("full-2");
  EnsureFileGone(RecordOf("full-2"));
  EXPECT_EQ(ErrorCode(RunPlugin("ADD", config_, late_)), 101);
}

TEST_F(FullPool, IsNotInTheWayOfAnAllocationThatIsInItAlready) {
  const json again = Attach(config_, As("full-4", AddContainer("again")));
  EXPECT_EQ(AddressOf(again), AddressOf(adds_.at("full-4")));
}

TEST_F(FullPool, GivesARequestedStaleAddressAndRefusesALiveOneByName) {
  const auto asking = [&](const std::string& id) {
    return Config({{"ipam", {{"subnet", "10.9.0.0/29"}}},
                   {"runtimeConfig", {{"ips", {AddressOf(adds_.at(id))}}}}});
  };
  Die("full-3");
  Attach(config_, As("full-4", *nodes_.at("full-4"), NomadArgs("billing", "5f3c")));
  const Outcome refused = MustRefuse(102, asking("full-4"), late_);
  EXPECT_THAT(MsgAndDetails(refused),
              AllOf(HasSubstr(AddressOf(adds_.at("full-4"))),
                    HasSubstr("'billing'"),
                    HasSubstr("'api'"),
                    HasSubstr("'5f3c'")));

  const json given = Attach(asking("full-3"), late_);
  EXPECT_EQ(AddressOf(given), AddressOf(adds_.at("full-3")));
}

}  // namespace
}  // namespace nomad_bridge::test
