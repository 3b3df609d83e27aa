// GC: what is listed is left undisturbed, everything else is removed.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class GcCommand : public World {
 protected:
  Outcome Gc(const json& config) { return RunPlugin("GC", config, kNoContainer); }
  void ExpectGcLeaves(const Snapshot& expected, const json& config) {
    EXPECT_THAT(Gc(config), Exits(0));
    EXPECT_TRUE(Unchanged(expected, TakeHostSnapshot()));
  }
};

TEST_F(GcCommand, KeepsListedAttachmentsAndRemovesTheRest) {
  WarmUp();
  Node& kept = AddContainer("kept");
  Attach(Publish({Port(9090, 90)}), As("kept", kept));
  const Server server = Server::Start(kept, Protocol::kTcp, "0.0.0.0", 90, "kept");
  std::optional<Connection> connection =
      Connection::Open(outside(), {.to = kHostIp4, .port = 9090});
  ASSERT_TRUE(connection);
  const Snapshot before = TakeHostSnapshot();
  Attach(Publish({Port(8080, 80)}));
  Node& stale = AddContainer("stale");
  Attach(Config(), As("stale", stale));
  KillContainer(stale);

  EXPECT_THAT(Gc(WithValid({"kept"})), Exits(0, Out("")));

  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
  EXPECT_TRUE(connection->Echoes("through all of it"));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 9090), "kept");
}

TEST_F(GcCommand, KeepsElementsOfAListedAttachmentThatHasNeitherRecordNorLink) {
  Attach(Config(), As("kept", container()));
  const std::string owner = ReadRecord("kept").at("host_veth");
  Detach(Config(), As("kept", container()));
  const Snapshot before = TakeHostSnapshot();
  host().Must({"nft",
               "add",
               "element",
               "inet",
               "nomad-bridge",
               "alloc4",
               Cat("{ 172.26.64.200 comment \"", owner, " id=kept\" }")});
  const Snapshot with = TakeHostSnapshot();
  ExpectGcLeaves(with, WithValid({"kept"}));
  ExpectGcLeaves(before, WithValid({}));
}

TEST_F(GcCommand, RemovesAllForAnEmptyArrayAndForNull) {
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  for (const json& none : {json::array(), json()}) {
    Attach(Config());
    json config = Config();
    config["cni.dev/valid-attachments"] = none;
    ExpectGcLeaves(before, config);
  }
}

TEST_F(GcCommand, RemovesOnlyStaleAttachmentsWithoutAnArray) {
  WarmUp();
  Attach(Publish({Port(8080, 80)}));
  const Snapshot before = TakeHostSnapshot();
  Node& stale = AddContainer("stale");
  Attach(Config(), As("stale", stale));
  KillContainer(stale);
  ExpectGcLeaves(before, Config());
}

TEST_F(GcCommand, TellsInterfacesOfAContainerApart) {
  Attach(Config());
  const Snapshot before = TakeHostSnapshot();
  Attach(Config(), {{"CNI_IFNAME", "eth1"}});
  ExpectGcLeaves(before, WithValid({"alloc-1"}));
}

TEST_F(GcCommand, LeavesOtherNetworksAlone) {
  const json other =
      Config({{"name", "other"}, {"bridge", "br-other"}, {"ipam", {{"subnet", "10.8.0.0/24"}}}});
  Attach(Publish({Port(8080, 80)}, other));
  const Snapshot before = TakeHostSnapshot();
  ExpectGcLeaves(before, WithValid({}));
}

TEST_F(GcCommand, KeepsReservedAddresses) {
  fs::create_directories(kLeases);
  const std::vector<std::string> texts = {"", "printer", "for the printer\n", "x\ny\n"};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::ofstream(Cat(kLeases, "/172.26.64.", i + 2)) << texts[i];
  }
  EXPECT_EQ(Gc(WithValid({})).exit_code, 0);
  EXPECT_EQ(Leased().size(), texts.size());
}

// Two hosts, as two containers may be, that share /run.
TEST_F(GcCommand, LeavesRecordsOfAnotherHostAlone) {
  Attach(Config());
  const std::string record = RecordOf("alloc-1");
  json value = json::parse(std::ifstream(record));
  value["origin"]["netns"]["inode"] = 1;
  std::ofstream(record) << value;
  EXPECT_EQ(Gc(WithValid({})).exit_code, 0);
  EXPECT_TRUE(fs::exists(record));
}

TEST_F(GcCommand, RemovesStaleLeasesOfOtherPlugins) {
  WarmUp();
  Attach(Config());
  const Snapshot before = TakeHostSnapshot();
  std::ofstream("/run/cni/nomad/172.26.70.1") << "long-gone\r\neth0";
  std::ofstream("/run/cni/nomad/172.26.70.2") << "listed\r\neth0";
  EXPECT_EQ(Gc(WithValid({"alloc-1", "listed"})).exit_code, 0);
  EXPECT_FALSE(fs::exists("/run/cni/nomad/172.26.70.1"));
  EXPECT_TRUE(fs::exists("/run/cni/nomad/172.26.70.2"))
      << "the reference plugins' attachments are valid, too";
  fs::remove("/run/cni/nomad/172.26.70.2");
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcCommand, RemovesAnAttachmentThatLostItsRecordAndItsLease) {
  WarmUp();
  const Snapshot before = TakeHostSnapshot();
  for (const bool has_lease : {true, false}) {
    Attach(Publish({Port(8080, 80)}));
    fs::remove(RecordOf("alloc-1"));
    if (!has_lease) {
      fs::remove_all("/run/cni/nomad");
    }
    ExpectGcLeaves(before, WithValid({}));
  }
}

TEST_F(GcCommand, LeavesForeignPortsAndElementsAlone) {
  Attach(Config());
  host().Must({"ip", "link", "add", "tap0", "type", "veth", "peer", "name", "tap1"});
  host().Must({"ip", "link", "set", "tap0", "master", "nomad"});
  // Nobody's, and that of a link which is there.
  host().Nft(
      "add element inet nomad-bridge alloc4 "
      "{ 172.26.70.1, 172.26.70.2 comment \"tap0 by hand\" }\n");
  const Snapshot before = TakeHostSnapshot();
  ASSERT_THAT(before.Lines(" element of alloc4"),
              AllOf(HasSubstr("172.26.70.1"), HasSubstr("tap0 by hand")));
  ExpectGcLeaves(before, WithValid({"alloc-1"}));
}

TEST_F(GcCommand, RefusesAnythingButAnArrayAndRemovesNothing) {
  Attach(Config());
  const Snapshot before = TakeHostSnapshot();
  for (const char* list : {R"("alloc-1")", R"([{"containerID": "alloc-1"}])", R"([7])", "{}"}) {
    json config = Config();
    config["cni.dev/valid-attachments"] = json::parse(list);
    EXPECT_THAT(Gc(config), Exits(1, Out(HasSubstr("cni.dev/valid-attachments")))) << list;
  }
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcCommand, DoesNothingOnABareMachine) {
  const Snapshot before = TakeSnapshot();
  EXPECT_THAT(Gc(WithValid({})), Exits(0));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

}  // namespace
}  // namespace nomad_bridge::test
