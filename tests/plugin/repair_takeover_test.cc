// An ADD for an attachment that is known already: it takes over, whatever is left of the earlier
// one.
#include <gtest/gtest.h>

#include "tests/plugin/repair_world.h"

namespace nomad_bridge::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kBothFamilies =
    R"({"ipam":{"ranges":[[{"subnet":"10.9.0.0/24"}],[{"subnet":"fd00:9::/64"}]]}})";

class Takeover : public RepairWorld {
 protected:
  void SetUp() override {
    UseOnce(config_);
    before_ = TakeSnapshot();
  }

  const std::string config_ = Config({{"tcp", 8080, 80}}, nlohmann::json::parse(kBothFamilies));
  Snapshot before_;
};

TEST_F(Takeover, KeepsTheAddressesInTheSameNamespace) {
  const Outcome first = MustAdd(config_);
  const Snapshot once = TakeSnapshot();

  const Outcome second = MustAdd(config_);

  EXPECT_EQ(second.json, first.json);
  EXPECT_TRUE(Unchanged(once, TakeSnapshot()));
  const Server page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
  MustDel(config_);
  EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
}

TEST_F(Takeover, KeepsTheAddressesInANewNamespaceWhileTheOldOneLives) {
  const Outcome first = MustAdd(config_);
  Node& fresh = AddContainer("fresh");

  const Outcome second = MustAdd(config_, As("alloc-1", fresh));

  EXPECT_EQ(second.json.at("ips"), first.json.at("ips"));
  EXPECT_FALSE(HasInterface(container(), "eth0"));
  EXPECT_TRUE(Ping(fresh, kOutsideIp4));
  const Server page = Server::Start(fresh, Protocol::kTcp, "0.0.0.0", 80, "page");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
  EXPECT_EQ(Check(config_, second, As("alloc-1", fresh)).exit_code, 0);
}

// What Nomad does after a CHECK that failed: a new namespace, no DEL, ADD with the same id.
TEST_F(Takeover, KeepsTheAddressesAfterAFailedCheckAndTheDeathOfTheOldNamespace) {
  Node& old = AddContainer("old");
  const Outcome first = MustAdd(config_, As("alloc-2", old));
  old.Must({"ip", "address", "flush", "dev", "eth0"});
  const Outcome check = Check(config_, first, As("alloc-2", old));
  EXPECT_EQ(ErrorCode(check), 103) << check;
  old.Kill();  // and not waited for: the kernel may still be at it
  Node& fresh = AddContainer("fresh");

  const Outcome second = MustAdd(config_, As("alloc-2", fresh));

  EXPECT_EQ(second.json.at("ips"), first.json.at("ips"));
  EXPECT_TRUE(Ping(fresh, kOutsideIp4));
  MustDel(config_, As("alloc-2", fresh));
  EXPECT_TRUE(Leases().empty());
}

TEST_F(Takeover, FreesThePortsThatTheEarlierOneHad) {
  MustAdd(config_);
  const Outcome second = MustAdd(Config({{"tcp", 9090, 80}}, nlohmann::json::parse(kBothFamilies)));
  const Variables other = As("other", AddContainer("other"));

  const Outcome third = RunPlugin("ADD", config_, other);

  EXPECT_EQ(third.exit_code, 0) << third;
  const Server page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 9090), "page");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "") << "the old port still leads to the old owner";
  MustDel(config_, other);
  MustDel(config_);
}

TEST_F(Takeover, ShowsTheNewLabelsEverywhere) {
  MustAdd(config_, Nomad({}, "old-job", "api", "alloc-1"));

  const Outcome second = MustAdd(config_, Nomad({}, "new-job", "api", "alloc-1"));

  const std::string everything = TakeSnapshot().Lines();
  EXPECT_THAT(everything, Not(HasSubstr("old-job")));
  EXPECT_THAT(TakeSnapshot().Lines(Cat("link ", HostVethOf(second))), HasSubstr("job=new-job"));
  EXPECT_THAT(host().Must({"nft", "list", "table", "inet", kTable}), HasSubstr("job=new-job"));
  EXPECT_THAT(FindFile(Cat(kRecords, "/alloc-1@eth0.json")).value_or(""), HasSubstr("new-job"));
}

TEST_F(Takeover, WorksWhenSomebodyHasRemovedTheRecord) {
  MustAdd(config_);
  EnsureFileGone(Cat(kRecords, "/alloc-1@eth0.json"));

  const Outcome second = MustAdd(config_);

  const Server page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
  EXPECT_EQ(Leases().size(), 2U) << "one per family, and nothing left of the earlier one";
  MustDel(config_);
  EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
}

TEST_F(Takeover, GivesBackLeasesInADataDirThatIsUsedNoMore) {
  const auto in = [](const std::string& folder) {
    return Config({}, {{"ipam", {{"subnet", "10.9.0.0/24"}, {"dataDir", folder}}}});
  };
  MustAdd(in("/run/here"));

  MustAdd(in("/run/there"));

  EXPECT_FALSE(FindFile("/run/here/nomad/10.9.0.2").has_value());
  EXPECT_TRUE(FindFile("/run/there/nomad/10.9.0.2").has_value());
}

TEST_F(Takeover, ThatFailsLeavesNothingOfTheEarlierOneEither) {
  const Variables other = As("other", AddContainer("other"));
  MustAdd(Config({{"tcp", 9090, 80}}, nlohmann::json::parse(kBothFamilies)), other);
  const Snapshot with_other = TakeSnapshot();
  MustAdd(config_);

  const Outcome second =
      RunPlugin("ADD", Config({{"tcp", 9090, 80}}, nlohmann::json::parse(kBothFamilies)));

  EXPECT_EQ(ErrorCode(second), 102) << second;
  EXPECT_TRUE(Unchanged(with_other, TakeSnapshot()));
}

// The same where it fails before anything of its own is there.
TEST_F(Takeover, ThatAsksForATakenAddressLeavesNothingOfTheEarlierOneEither) {
  nlohmann::json config = nlohmann::json::parse(kBothFamilies);
  const Outcome other = MustAdd(Config({}, config), As("other", AddContainer("other")));
  const Snapshot with_other = TakeSnapshot();
  MustAdd(config_);

  config["runtimeConfig"]["ips"] = {AddressOf(other)};
  const Outcome second = RunPlugin("ADD", Config({}, config));

  EXPECT_EQ(ErrorCode(second), 102) << second;
  EXPECT_TRUE(Unchanged(with_other, TakeSnapshot()));
}

// An interface with the name we are asked for that is none of ours.
struct Foreign {
  std::string name;
  std::vector<std::string> made_by;
};

class ForeignInterface : public RepairWorld, public ::testing::WithParamInterface<Foreign> {};

TEST_P(ForeignInterface, IsRefusedAndUntouched) {
  const std::string config = Config({{"tcp", 8080, 80}});
  UseOnce(config);
  container().Must(GetParam().made_by);
  const Snapshot before = TakeSnapshot();

  const Outcome add = RunPlugin("ADD", config);

  EXPECT_EQ(ErrorCode(add), 102) << add;
  EXPECT_THAT(Msg(add), HasSubstr("'eth0' already exists"));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  MustDel(config);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot())) << "DEL took what is not ours";
}

// The living attachment loses nothing because its runtime now names a namespace in which the name
// is taken.
TEST_P(ForeignInterface, InANewNamespaceLeavesTheEarlierAttachmentAlone) {
  const std::string config = Config({{"tcp", 8080, 80}});
  const Outcome first = MustAdd(config);
  Node& fresh = AddContainer("fresh");
  fresh.Must(GetParam().made_by);
  const Snapshot before = TakeSnapshot();

  const Outcome second = RunPlugin("ADD", config, As("alloc-1", fresh));

  EXPECT_EQ(ErrorCode(second), 102) << second;
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    ForeignInterface,
    ::testing::Values(
        Foreign{"Veth",
                {"ip",
                 "link",
                 "add",
                 "eth0",
                 "address",
                 "02:00:00:00:09:01",
                 "type",
                 "veth",
                 "peer",
                 "name",
                 "other",
                 "address",
                 "02:00:00:00:09:02"}},
        Foreign{"Bridge",
                {"ip", "link", "add", "eth0", "address", "02:00:00:00:09:03", "type", "bridge"}}),
    [](const auto& each) { return each.param.name; });

TEST_F(Takeover, LeavesALinkOfOurNameOnTheHostAloneIfItIsNotOurs) {
  const std::string veth = HostVethOf(MustAdd(config_));
  MustDel(config_);
  host().Must({"ip", "link", "add", veth, "address", "02:00:00:00:09:04", "type", "bridge"});
  const Snapshot before = TakeSnapshot();

  const Outcome add = RunPlugin("ADD", config_);

  EXPECT_EQ(ErrorCode(add), 102) << add;
  EXPECT_THAT(Details(add), HasSubstr(veth));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  MustDel(config_);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

}  // namespace
}  // namespace nomad_bridge::test
