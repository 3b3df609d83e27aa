// nomad-bridge gc: what stale allocations hold is taken back, in all networks; the living lose
// nothing.

#include <fcntl.h>

#include "tests/plugin/gc_world.h"

namespace nomad_bridge::test {
namespace {

class GcLine : public GcWorld {
 protected:
  // A dead one in each of two networks.
  void AttachDoomed() {
    for (const json& config : {Publish({Port(9090, 90)}), kOther}) {
      AttachDead(Cat("doomed-", config.at("name").get<std::string>()), config);
    }
  }
};

TEST_F(GcLine, DoesNothingOnABareMachine) {
  EXPECT_THAT(Output("gc"), HasSubstr("0 attachments; nothing to take back\n"));
  EXPECT_THAT(Output("gc -dry-run"), HasSubstr("0 attachments; nothing to take back\n"));
}

TEST_F(GcLine, ReleasesWhatStaleAttachmentsOfAllNetworksHold) {
  UseAll();
  const Snapshot before = TakeHostSnapshot();
  AttachDoomed();
  const Snapshot with = TakeHostSnapshot();

  const Outcome dry = RunLine("gc -dry-run");
  EXPECT_EQ(dry.exit_code, 1) << dry;
  EXPECT_THAT(dry.out,
              HasSubstr("container 'doomed-nomad' of network 'nomad' is stale, and has "
                        "172.26.64."));
  EXPECT_THAT(dry.out, HasSubstr("tcp port 9090"));
  EXPECT_THAT(dry.out, HasSubstr("container 'doomed-other' of network 'other' is stale"));
  EXPECT_TRUE(Unchanged(with, TakeHostSnapshot()));

  const Outcome gc = RunLine("gc -json");
  EXPECT_EQ(gc.exit_code, 0) << gc;
  EXPECT_EQ(gc.json.at("found").size(), 2);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
  EXPECT_THAT(Output("gc -dry-run"), HasSubstr("; nothing to take back\n"));
}

TEST_F(GcLine, ReleasesALeaseWithoutAnAttachment) {
  UseAll();
  const Snapshot before = TakeHostSnapshot();
  std::ofstream("/var/run/cni/nomad/172.26.70.1") << "long-gone\r\neth0";
  EXPECT_THAT(RunLine("gc"), Exits(0));
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcLine, KeepsReservedAddresses) {
  UseAll();
  const std::vector<std::string> texts = {
      "", "printer", "for the printer\n", "x\ny\n", "?\r\neth0"};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string path = Cat("/var/run/cni/nomad/172.26.70.", i + 2);
    std::ofstream(path) << texts[i];
    host().Must({"touch", "-d", "@1", path});  // before the boot
  }
  fs::create_directory("/var/run/cni/nomad/172.26.70.9");
  EXPECT_THAT(Output("gc"), HasSubstr("; nothing to take back\n"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  EXPECT_THAT(Output("doctor leases.orphan"), HasSubstr("ok    leases.orphan"));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(FindFile(Cat("/var/run/cni/nomad/172.26.70.", i + 2)), texts[i]);
  }
  EXPECT_TRUE(fs::exists("/var/run/cni/nomad/172.26.70.9"));
}

TEST_F(GcLine, KeepsALeaseOfALinkWithoutARecord) {
  UseAll();
  fs::remove(RecordOf("alloc-1"));
  const std::map<std::string, std::string> before = Leases();
  EXPECT_EQ(RunLine("gc").exit_code, 0);
  EXPECT_EQ(Leases(), before);
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
}

TEST_F(GcLine, RemovesAnUnreadableRecordWithoutALink) {
  UseAll();
  const Snapshot before = TakeHostSnapshot();
  for (const char* text : {"", "{", "[]"}) {
    std::ofstream(RecordOf("nobody")) << text;
    EXPECT_THAT(RunLine("doctor records").out,
                AllOf(HasSubstr("container 'nobody' has no readable record"),
                      HasSubstr("fix: nomad-bridge gc")));
    EXPECT_THAT(RunLine("gc -dry-run").out,
                HasSubstr("the record of container 'nobody' of network 'nomad' cannot be read"));
    EXPECT_THAT(RunLine("gc"), Exits(0));
    EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
    EXPECT_THAT(RunLine("doctor records"), Exits(0));
  }
}

TEST_F(GcLine, KeepsAnUnreadableRecordWithALink) {
  UseAll();
  std::ofstream(RecordOf("alloc-1")) << "{";
  EXPECT_THAT(RunLine("gc").out, HasSubstr("; nothing to take back\n"));
  EXPECT_TRUE(fs::exists(RecordOf("alloc-1")));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
}

// Nomad's own bridge mode has its leases in the same directory.
TEST_F(GcLine, KeepsALeaseOfAReferenceAttachment) {
  UseAll();
  std::ofstream("/var/run/cni/nomad/172.26.70.1") << "reference\r\neth0";
  host().Shell(
      "iptables -t nat -A POSTROUTING -s 172.26.70.1/32 -j ACCEPT "
      "-m comment --comment 'name: \"nomad\" id: \"reference\"'");
  EXPECT_THAT(Output("gc"), HasSubstr("; nothing to take back\n"));
  EXPECT_TRUE(Leased().contains("172.26.70.1"));
}

INSTANTIATE_TEST_SUITE_P(Plugins,
                         GcOfForeignAttachments,
                         ::testing::ValuesIn(std::vector<Living>{
                             {{"Bridge"}, {{"type", "bridge"}, {"bridge", "theirs"}}},
                             {{"BridgeAndFirewall"},
                              {{"type", "bridge"}, {"bridge", "theirs"}},
                              {{{"type", "firewall"}}}},
                             {{"Ptp"}, {{"type", "ptp"}}},
                             {{"Macvlan"}, {{"type", "macvlan"}, {"master", "uplink"}}}}),
                         kNameOf);

INSTANTIATE_TEST_SUITE_P(Plugins,
                         GcOfRecordedAttachments,
                         ::testing::ValuesIn(std::vector<Living>{
                             {{"Bridge"}, {{"type", "bridge"}, {"bridge", "theirs"}}, {}},
                             {{"Ptp"}, {{"type", "ptp"}}, {}},
                             {{"Macvlan"}, {{"type", "macvlan"}, {"master", "uplink"}}, {}}}),
                         kNameOf);

// Of a virtual machine behind a tap there is no namespace to be seen; here its own is held by a
// descriptor alone.
class GcOfMachine : public GcLine {
 protected:
  static constexpr const char* kMac = "02:00:00:00:00:09";

  GcOfMachine() {
    UseAll();
    Node& machine = AddContainer("machine");
    hidden_ = UniqueFd(::open(machine.path().c_str(), O_RDONLY | O_CLOEXEC));
    host().Must(Words("ip link add tap0 up master nomad type veth peer name eth0 netns machine"));
    // What it sends of itself when its link is up would teach the bridge where it is again.
    machine.SetSysctl("net/ipv6/conf/eth0/disable_ipv6", "1");
    machine.Must(Words(Cat("ip link set eth0 up address ", kMac)));
    machine.Must(Words("ip address add 172.26.70.9/20 dev eth0"));
    std::ofstream("/var/run/cni/nomad/172.26.70.9") << "machine\r\neth0";
    machine.Kill();
  }

  // The bridge forgets it, as it does 300 s later.
  void FallSilent() { host().Must(Words(Cat("bridge fdb delete ", kMac, " dev tap0 master"))); }

  UniqueFd hidden_;
};

TEST_F(GcOfMachine, KeepsTheLeaseOfARunningMachine) {
  ASSERT_TRUE(Ping(host(), "172.26.70.9"));

  EXPECT_THAT(Output("gc"), HasSubstr("; nothing to take back\n"));
  EXPECT_TRUE(Leased().contains("172.26.70.9"));

  // What the node remembers of it says no more than that it was there.
  host().Must({"ip", "link", "delete", "tap0"});
  EXPECT_THAT(host().Must({"ip", "neighbour"}), HasSubstr("172.26.70.9"));
  EXPECT_THAT(RunLine("gc"), Exits(0));
  EXPECT_FALSE(Leased().contains("172.26.70.9"));
}

// As docs/commands.md says.
TEST_F(GcOfMachine, KeepsTheLeaseOfASilentMachineWithAPermanentNeighbour) {
  ASSERT_TRUE(Ping(host(), "172.26.70.9"));
  FallSilent();
  EXPECT_THAT(RunLine("gc -dry-run"), Exits(1, Out(HasSubstr("the lease of 172.26.70.9"))));
  ASSERT_TRUE(Ping(host(), "172.26.70.9"));
  EXPECT_THAT(Output("gc"), HasSubstr("; nothing to take back\n"));

  FallSilent();
  host().Must(
      Words(Cat("ip neighbour replace 172.26.70.9 lladdr ", kMac, " dev nomad nud permanent")));
  EXPECT_THAT(Output("gc"), HasSubstr("; nothing to take back\n"));
  host().Must(Words("ip neighbour delete 172.26.70.9 dev nomad"));
  EXPECT_THAT(RunLine("gc"), Exits(0));
  EXPECT_FALSE(Leased().contains("172.26.70.9"));
}

TEST_F(GcLine, RemovesElementsWithoutAnOwner) {
  UseAll();
  const Snapshot before = TakeHostSnapshot();
  host().Nft(
      "add element inet nomad-bridge port4 "
      "{ tcp . 9999 comment \"veth00000000000 id=gone\" : 172.26.64.99 . 80 }");
  EXPECT_THAT(RunLine("gc -dry-run"),
              Exits(1, Out(HasSubstr("tcp . 9999 in port4 of veth00000000000 has no owner"))));
  EXPECT_EQ(RunLine("gc").exit_code, 0);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(GcLine, FailsIfSomethingStays) {
  UseAll();
  AttachDoomed();
  const std::string record = RecordOf("doomed-nomad");
  json value = json::parse(std::ifstream(record));
  value["ipam"]["delegated"] = {
      {"type", "gone"}, {"cni_path", "/nowhere"}, {"args", ""}, {"config", "{}"}};
  std::ofstream(record) << value;
  EXPECT_THAT(RunLine("gc"),
              Exits(1, Err(HasSubstr("container 'doomed-nomad': cannot remove the leases"))));
  EXPECT_FALSE(fs::exists("/run/nomad-bridge/other/doomed-other@eth0.json"));
}

// Its directory of records went with its last DEL.
TEST_F(GcLine, LooksForLeasesAlsoOfANetworkWithoutRecords) {
  UseAll();
  ASSERT_FALSE(fs::exists("/run/nomad-bridge/other"));
  Node& other = AddContainer("other");
  const Network network{
      .list = ListOf(
          {{{"type", "macvlan"},
            {"master", "uplink"},
            {"ipam",
             {{"type", "host-local"}, {"subnet", "10.8.0.0/24"}, {"dataDir", "/var/run/cni"}}}}},
          "other"),
      .path = kReferenceDirectory};
  const std::string lease = AddressOf(MustAdd(network, As("living", other)).result);
  EXPECT_THAT(Output("gc"), HasSubstr("; nothing to take back\n"));
  EXPECT_THAT(Leased("/var/run/cni/other"), ElementsAre(lease));
  other.Kill();
  EXPECT_THAT(RunLine("gc"), Exits(0));
  EXPECT_THAT(Leased("/var/run/cni/other"), IsEmpty());
}

// Every local user can make a namespace, and give its loopback any address. A container can give
// its interface any address.
TEST_F(GcLine, TakesNoAddressThatAStrangerClaimsForUsed) {
  Node& stranger = AddContainer("stranger");
  stranger.Must(Words("ip address add 172.26.64.2/32 dev lo"));
  stranger.Must(Words("ip address add fd00:26::2/128 dev lo"));
  const json config = DualStack({{"sourceCheck", false}});
  const json first = Attach(config);
  EXPECT_EQ(AddressOf(first), "172.26.64.2");
  EXPECT_EQ(AddressOf(first, 6), "fd00:26::2");
  container().Must(Words("ip address add 172.26.64.3/32 dev eth0"));
  ASSERT_TRUE(Ping(host(), "172.26.64.3"));
  EXPECT_EQ(AddressOf(Attach(config, As("second", AddContainer("second")))), "172.26.64.3");
}

}  // namespace
}  // namespace nomad_bridge::test
