// An ADD for an attachment that is known already: it takes over, whatever is left of the earlier
// one.

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kBothFamilies =
    R"({"ipam":{"ranges":[[{"subnet":"10.9.0.0/24"}],[{"subnet":"fd00:9::/64"}]]}})";

class Takeover : public World {
 protected:
  void SetUp() override {
    UseOnce(config_);
    before_ = TakeSnapshot();
  }

  const json config_ = Publish({Port(8080, 80)}, Config(kBothFamilies));
  Snapshot before_;
};

TEST_F(Takeover, KeepsTheAddressesInTheSameNamespace) {
  const json first = Attach(config_);
  ForgetAge("alloc-1");
  const Snapshot once = TakeSnapshot();

  const json second = Attach(config_);

  EXPECT_EQ(second, first);
  ForgetAge("alloc-1");
  EXPECT_TRUE(Unchanged(once, TakeSnapshot()));
  ExpectPublished(container());
  Detach(config_);
  EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
}

TEST_F(Takeover, KeepsTheAddressesInANewNamespaceWhileTheOldOneLives) {
  const json first = Attach(config_);
  Node& fresh = AddContainer("fresh");

  const json second = Attach(config_, As("alloc-1", fresh));

  EXPECT_EQ(second.at("ips"), first.at("ips"));
  EXPECT_FALSE(HasInterface(container(), "eth0"));
  EXPECT_TRUE(Ping(fresh, kOutsideIp4));
  ExpectPublished(fresh);
  EXPECT_EQ(Check(config_, second, As("alloc-1", fresh)).exit_code, 0);
}

// What Nomad does after a CHECK that failed: a new namespace, no DEL, ADD with the same id.
TEST_F(Takeover, KeepsTheAddressesAfterAFailedCheckAndTheEndOfTheOldNamespace) {
  Node& old = AddContainer("old");
  const json first = Attach(config_, As("alloc-2", old));
  old.Must({"ip", "address", "flush", "dev", "eth0"});
  EXPECT_THAT(Check(config_, first, As("alloc-2", old)), Fails(103));
  old.Kill();  // and not waited for: the kernel may still be at it
  Node& fresh = AddContainer("fresh");

  const json second = Attach(config_, As("alloc-2", fresh));

  EXPECT_EQ(second.at("ips"), first.at("ips"));
  EXPECT_TRUE(Ping(fresh, kOutsideIp4));
  Detach(config_, As("alloc-2", fresh));
  EXPECT_TRUE(Leases().empty());
}

TEST_F(Takeover, FreesThePortsOfTheEarlierAttachment) {
  Attach(config_);
  const json second = Attach(Publish({Port(9090, 80)}, Config(kBothFamilies)));
  const Variables other = As("other", AddContainer("other"));

  Attach(config_, other);
  const Server page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 9090), "page");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "") << "the old port still leads to the old owner";
  Detach(config_, other);
  Detach(config_);
}

TEST_F(Takeover, ShowsTheNewLabelsEverywhere) {
  Attach(config_, As("alloc-1", container(), NomadArgs("old-job", "alloc-1")));

  const json second = Attach(config_, As("alloc-1", container(), NomadArgs("new-job", "alloc-1")));

  const std::string everything = TakeSnapshot().Lines();
  EXPECT_THAT(everything, Not(HasSubstr("old-job")));
  EXPECT_THAT(TakeSnapshot().Lines(Cat("link ", HostVethOf(second))), HasSubstr("job=new-job"));
  EXPECT_THAT(host().Must({"nft", "list", "table", "inet", kTable}), HasSubstr("job=new-job"));
  EXPECT_THAT(FindFile(RecordOf("alloc-1")).value_or(""), HasSubstr("new-job"));
}

TEST_F(Takeover, WorksWithoutTheRecord) {
  Attach(config_);
  EnsureFileGone(RecordOf("alloc-1"));

  const json second = Attach(config_);

  ExpectPublished(container());
  EXPECT_EQ(Leases().size(), 2U) << "one per family, and nothing left of the earlier one";
  Detach(config_);
  EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
}

TEST_F(Takeover, ReleasesLeasesInADataDirNoLongerInUse) {
  const auto in = [](const std::string& directory) {
    return Config({{"ipam", {{"subnet", "10.9.0.0/24"}, {"dataDir", directory}}}});
  };
  Attach(in("/run/here"));

  Attach(in("/run/there"));

  EXPECT_FALSE(FindFile("/run/here/nomad/10.9.0.2").has_value());
  EXPECT_TRUE(FindFile("/run/there/nomad/10.9.0.2").has_value());
}

TEST_F(Takeover, LeavesNothingOfTheEarlierAttachmentIfItFails) {
  const Variables other = As("other", AddContainer("other"));
  Attach(Publish({Port(9090, 80)}, Config(kBothFamilies)), other);
  const Snapshot with_other = TakeSnapshot();
  Attach(config_);

  EXPECT_THAT(RunPlugin("ADD", Publish({Port(9090, 80)}, Config(kBothFamilies))), Fails(102));

  EXPECT_TRUE(Unchanged(with_other, TakeSnapshot()));
}

// The same where it fails before anything of its own is there.
TEST_F(Takeover, LeavesNothingOfTheEarlierAttachmentIfAnAddressIsTaken) {
  json config = Config(kBothFamilies);
  const json other = Attach(config, As("other", AddContainer("other")));
  const Snapshot with_other = TakeSnapshot();
  Attach(config_);

  config["runtimeConfig"]["ips"] = {AddressOf(other)};
  EXPECT_THAT(RunPlugin("ADD", config), Fails(102));

  EXPECT_TRUE(Unchanged(with_other, TakeSnapshot()));
}

// An interface with the name we are asked for that is none of ours.
struct Foreign : Named {
  std::vector<std::string> made_by;
};

class ForeignInterface : public World, public ::testing::WithParamInterface<Foreign> {};

TEST_P(ForeignInterface, IsRefusedAndUntouched) {
  const json config = Publish({Port(8080, 80)});
  UseOnce(config);
  container().Must(GetParam().made_by);
  const Snapshot before = TakeSnapshot();

  EXPECT_THAT(RunPlugin("ADD", config), Fails(102, Msg(HasSubstr("'eth0' already exists"))));

  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  Detach(config);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot())) << "DEL took what is not ours";
}

// The living attachment loses nothing because its runtime now names a namespace in which the name
// is taken.
TEST_P(ForeignInterface, LeavesTheEarlierAttachmentAloneInANewNamespace) {
  const json config = Publish({Port(8080, 80)});
  const json first = Attach(config);
  Node& fresh = AddContainer("fresh");
  fresh.Must(GetParam().made_by);
  MustRefuse(102, config, As("alloc-1", fresh));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    ForeignInterface,
    ::testing::Values(Foreign{"Veth",
                              Words("ip link add eth0 address 02:00:00:00:09:01 type veth peer "
                                    "name other address 02:00:00:00:09:02")},
                      Foreign{"Bridge",
                              Words("ip link add eth0 address 02:00:00:00:09:03 type bridge")}),
    kNameOf);

TEST_F(Takeover, LeavesAForeignLinkWithOurHostNameAlone) {
  const std::string veth = HostVethOf(Attach(config_));
  Detach(config_);
  host().Must(Words(Cat("ip link add ", veth, " address 02:00:00:00:09:04 type veth") +
                    " peer name other address 02:00:00:00:09:05"));
  const Snapshot before = TakeSnapshot();

  EXPECT_THAT(RunPlugin("ADD", config_), Fails(102, Details(HasSubstr(veth))));

  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  Detach(config_);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

}  // namespace
}  // namespace nomad_bridge::test
