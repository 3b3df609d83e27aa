// Whose port, address and connection it is: live attachments keep theirs, stale ones do not.
#include <ctime>

#include <fcntl.h>
#include <sys/stat.h>

#include "tests/support/refusal.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

// ---- host ports

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

TEST_F(OwnedPort, IsRefusedToAnotherNetworkToo) {
  const json config = Publish(
      {Port(8080, 80)},
      Config({{"name", "second"}, {"bridge", "second"}, {"ipam", {{"subnet", "10.9.0.0/24"}}}}));
  EXPECT_THAT(
      RunPlugin("ADD", config, As("late", *late_)),
      Fails(102, MsgAndDetails(AllOf(HasSubstr("'billing'"), HasSubstr("network 'nomad'")))));
}

TEST_F(OwnedPort, IsTakenOverFromAStaleOwnerAtOnce) {
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

TEST_F(OwnedPort, SurvivesTheLateDelOfItsStaleOwner) {
  OwnerDisappears();
  Attach(Publish({Port(8080, 80)}), As("late", *late_));
  const Snapshot before = TakeSnapshot();

  Detach(WithResult(config_, add_), {{"CNI_CONTAINERID", "owner"}, {"CNI_NETNS", ""}});

  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  ExpectPublished(*late_);
}

TEST_F(OwnedPort, IsTakenOverFromAStaleOwnerWithoutARecord) {
  OwnerDisappears();
  EnsureFileGone(RecordOf("owner"));

  Attach(config_, As("late", *late_));

  ExpectPublished(*late_);
}

TEST_F(OwnedPort, IsKeptByALiveOwnerWithoutARecord) {
  EnsureFileGone(RecordOf("owner"));
  EXPECT_THAT(MustRefuse(102, config_, As("late", *late_)),
              MsgAndDetails(HasSubstr("job=billing")));
}

// What its rules share with others' stays for it, too.
TEST_F(OwnedPort, AnswersWithoutItsOwnersRecordAfterAnotherDel) {
  EnsureFileGone(RecordOf("owner"));
  Attach(Config(), As("late", *late_));
  Detach(Config(), As("late", *late_));
  ExpectPublished(*owner_);
}

// There no link has the owner's name.
TEST_F(OwnedPort, IsKeptByAnOwnerBehindAnotherPluginWithoutARecord) {
  Node& other = AddContainer("other");
  const json ptp = {{"type", "ptp"},
                    {"ipam",
                     {{"type", "host-local"},
                      {"ranges", {{{{"subnet", "10.9.0.0/24"}}}, {{{"subnet", "fd00:9::/64"}}}}},
                      {"dataDir", "/run/leases"},
                      {"routes", {{{"dst", "0.0.0.0/0"}}, {{"dst", "::/0"}}}}}}};
  MustAdd({.list = ListOf({ptp, PortmapEntry()}, "other"), .path = MixedPath({"portmap"})},
          WithPorts("other", other, {Port(9090, 80)}));
  EnsureFileGone("/run/nomad-bridge/other/other@eth0.json");
  const json config = Publish({Port(9090, 80)});

  EXPECT_THAT(MustRefuse(102, config, As("late", *late_)), Msg(HasSubstr("host port tcp 9090")));
  Attach(Config(), As("third", AddContainer("third")));
  static_cast<void>(host().Must({BinaryUnderTest(), "reconcile"}));
  {
    const Server page = Server::Start(other, Protocol::kTcp, "::", 80, "other");
    EXPECT_EQ(TcpText(outside(), kHostIp4, 9090), "other");
    // The host's end that ptp made asks for nobody as long as its own addresses are tentative.
    EXPECT_TRUE(Soon([&] { return TcpText(outside(), kHostIp6, 9090) == "other"; }));
  }
  other.Kill();
  ASSERT_TRUE(Soon([&] { return RunPlugin("ADD", config, As("late", *late_)).exit_code == 0; }));
  ExpectPublished(*late_, 9090);
}

TEST_F(OwnedPort, IsFreeAfterItsOwnersDel) {
  Detach(config_, As("owner", *owner_));
  EXPECT_EQ(MustRun("ADD", config_, As("late", *late_)).err, "");
}

// After a flush no element has the port; by the records it still has its owner.
TEST_F(OwnedPort, StaysWithItsOwnerAfterAFlush) {
  host().Must({"nft", "flush", "ruleset"});

  EXPECT_THAT(RunPlugin("ADD", config_, As("late", *late_)),
              Fails(102, Msg(HasSubstr("'billing'"))));
}

// ---- addresses

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
    json record = ReadRecord(id);
    record["origin"]["boot_id"] = "00000000-0000-0000-0000-000000000000";
    WriteRecord(id, record);
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

TEST_F(FullPool, IsAnErrorThatNamesTheNetworkAndTheRange) {
  EXPECT_THAT(MustRefuse(101, config_, late_),
              MsgAndDetails(AllOf(HasSubstr("'nomad'"), HasSubstr("10.9.0.1-10.9.0.6"))));
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

TEST_F(FullPool, ReclaimsAllStaleAttachments) {
  Die("full-2");
  Die("full-4");
  Attach(config_, late_);
  EXPECT_FALSE(HasRecord("full-2"));
  EXPECT_FALSE(HasRecord("full-4"));
  EXPECT_EQ(Leases().size(), 4U);
}

// Both find the pool full; then one takes back all that is stale before the other looks for it.
TEST_F(FullPool, ServesTwoAddsAtOnceFromStaleAddresses) {
  Die("full-1");
  Die("full-2");
  const std::string log = "/run/strace";
  Process second = Process::Start(
      UnderStrace(PluginCommand("ADD", config_.dump(), As("slow", AddContainer("slow"))),
                  log,
                  {"-e", "trace=flock,getdents64", "-e", "inject=getdents64:delay_enter=500000"}));
  ASSERT_TRUE(Soon([&] { return FindFile(log).value_or("").find("flock(") != std::string::npos; }));
  EXPECT_THAT(StartPlugin("ADD", config_, late_).Wait(), Exits(0));
  EXPECT_THAT(second.Wait(), Exits(0));
  EXPECT_EQ(Leases().size(), 5U);
}

// A container whose namespace file has gone but that still runs: its path is a name only.
TEST_F(FullPool, CountsANamespaceWithoutAPathAsLiveWhileAProcessIsInIt) {
  std::optional<Process> inside;
  nodes_.at("full-1")->Do([&] {
    inside.emplace(Process::Start({.argv = {"sleep", "60"}, .input = "", .variables = {}}));
  });
  const std::string veth = HostVethOf(adds_.at("full-1"));
  nodes_.at("full-1")->Kill();

  EXPECT_THAT(RunPlugin("ADD", config_, late_), Fails(101));
  EXPECT_TRUE(HasInterface(host(), veth));

  inside.reset();
  EXPECT_TRUE(Soon([&] { return !HasInterface(host(), veth); }));
  EXPECT_EQ(AddressOf(Attach(config_, late_)), AddressOf(adds_.at("full-1")));
}

TEST_F(FullPool, ReclaimsAttachmentsFromBeforeTheLastBoot) {
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

TEST_F(FullPool, GivesARepeatedAddItsOwnAddress) {
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
  EXPECT_THAT(MustRefuse(102, asking("full-4"), late_),
              MsgAndDetails(AllOf(HasSubstr(AddressOf(adds_.at("full-4"))),
                                  HasSubstr("'billing'"),
                                  HasSubstr("'api'"),
                                  HasSubstr("'5f3c'"))));

  const json given = Attach(asking("full-3"), late_);
  EXPECT_EQ(AddressOf(given), AddressOf(adds_.at("full-3")));
}

// ---- what stays through commands of others and repairs

class Attachment : public World {};

// A lease file that is gone must not give the address of a living allocation away, were it the last
// one.
TEST_F(Attachment, KeepsItsAddressWhenTheLeaseIsLost) {
  const json config = Config({{"ipam", {{"subnet", "10.9.0.0/30"}}}});
  const json first = Attach(config);
  ASSERT_EQ(AddressOf(first), "10.9.0.2");
  EnsureFileGone(Cat(kLeases, "/10.9.0.2"));

  EXPECT_THAT(RunPlugin("ADD", config, As("other", AddContainer("other"))), Fails(101));

  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  MustCheck(config, first);
  EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{"10.9.0.2", "alloc-1"}}));
}

// The kernel tells who has it.
TEST_F(Attachment, KeepsItsAddressWhenItsLeaseAndItsRecordAreLost) {
  const json config = Config({{"ipam", {{"subnet", "10.9.0.0/29"}}}});
  const json first = Attach(config);
  fs::remove_all(kLeases);
  fs::remove_all("/run/nomad-bridge");

  EXPECT_EQ(AddressOf(Attach(config, As("other", AddContainer("other")))), "10.9.0.3");

  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  MustCheck(config, first);
  EXPECT_EQ(Leases(),
            (std::map<std::string, std::string>{{"10.9.0.2", "alloc-1"}, {"10.9.0.3", "other"}}));
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
