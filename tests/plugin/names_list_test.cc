// The five reference names as Nomad runs them: one attachment, made and removed by four processes.

#include "tests/support/runtime.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

using ::testing::UnorderedElementsAre;

class ListOfReferenceNames : public World {
 protected:
  static Network Builtin(const char* fixture = "nomad_builtin_bridge") {
    return ByOurs(Conflist(fixture));
  }

  Attached Allocation(const std::string& id, const Node& container, int port = 8080) {
    return {.container_id = id,
            .netns = container.path(),
            .port_mappings = {Port(port, 80, "tcp"), Port(port, 80, "udp")},
            .args = NomadArgs("billing", id)};
  }

  // What every first attachment on a node leaves by design is there.
  void UseOnce(const Network& network) {
    Node& early = AddContainer("early");
    MustDelFrom(network, MustAdd(network, Allocation("early", early, 7)));
    KillContainer(early);
    container().Must({"ip", "link", "set", "lo", "up"});
  }

  void ExpectPage(int port) {
    const Server page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
    const auto host_port = static_cast<std::uint16_t>(port);
    EXPECT_EQ(TcpText(outside(), kHostIp4, host_port), "page");
    EXPECT_EQ(TcpText(host(), "127.0.0.1", host_port), "page");
  }

  // The addresses in set `name` of our table.
  json Members(const std::string& name) {
    json addresses = json::array();
    for (const json& element : Elements(name)) {
      addresses.push_back(element.at("elem").at("val"));
    }
    return addresses;
  }

  // `verb` of entry `index`, for all of `many` at the same time.
  void AllAtOnce(const std::string& verb,
                 const Network& network,
                 std::size_t index,
                 std::vector<Attached>& many) {
    std::vector<Process> running;
    running.reserve(many.size());
    for (const Attached& attached : many) {
      running.push_back(
          Process::Start(EntryCommand(verb, network, index, attached, attached.result)));
    }
    for (std::size_t i = 0; i < many.size(); ++i) {
      const Outcome outcome = running[i].Wait();
      EXPECT_EQ(outcome.exit_code, 0) << outcome;
      if (verb == "ADD") {
        many[i].result = outcome.json;
      }
    }
  }

  // What the attachment `id` consists of, by its record.
  static std::vector<std::string> Parts(const std::string& id) {
    const std::optional<std::string> record = FindFile(RecordOf(id));
    const json phases = json::parse(record.value_or("{}")).value("parts", json::object());
    std::vector<std::string> parts;
    for (const auto& [part, phase] : phases.items()) {
      if (phase != "gone") {
        parts.push_back(part);
      }
    }
    return parts;
  }
};

TEST_F(ListOfReferenceNames, NomadsOwnListGivesTheNetworkThatNomadBridgeGivesAlone) {
  const Network builtin = Builtin();
  const Network alone = ByOurs(ListOf({{{"type", "nomad-bridge"},
                                        {"hairpinMode", false},
                                        {"inbound", "any"},
                                        {"sourceCheck", false},
                                        {"capabilities", {{"portMappings", true}}}}},
                                      "nomad",
                                      "0.4.0"));
  Attached attached = MustAdd(builtin, Allocation("alloc-1", container()));
  const Snapshot by_list = TakeSnapshot();
  const json list_result = attached.result;
  MustDelFrom(builtin, attached);
  EnsureFileGone("/var/run/cni/nomad/last_reserved_ip.0");  // else the next address is another

  attached = MustAdd(alone, attached);

  EXPECT_EQ(attached.result.at("interfaces"), list_result.at("interfaces"));
  EXPECT_EQ(attached.result.at("ips"), list_result.at("ips"));
  // But for the record, in which lo is one of the parts.
  EXPECT_TRUE(Unchanged(by_list.Of({"host ", "container ", "outside "}),
                        TakeSnapshot().Of({"host ", "container ", "outside "})));
  ExpectPage(8080);
}

TEST_F(ListOfReferenceNames, CarriesTrafficIsCheckedAndGoesWithoutATrace) {
  for (const char* const fixture : {"nomad_builtin_bridge", "nomad_builtin_bridge_dual_stack"}) {
    SCOPED_TRACE(fixture);
    const Network network = Builtin(fixture);
    UseOnce(network);
    const Snapshot before = TakeSnapshot();
    Attached attached = MustAdd(network, Allocation("alloc-1", container()));

    ExpectPage(8080);
    EXPECT_TRUE(Ping(container(), kOutsideIp4));
    const Outcome check = MustCheckIn(network, attached);
    EXPECT_EQ(check.err, "");
    MustDelFrom(network, attached);
    EXPECT_THAT(container().Must({"ip", "link", "show", "lo"}), Not(HasSubstr("UP")));
    container().Must({"ip", "link", "set", "lo", "up"});
    EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  }
}

TEST_F(ListOfReferenceNames, EachNameAddsItsPartAndTakesItBack) {
  const Network network = Builtin();
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));
  EXPECT_THAT(Parts("alloc-1"),
              UnorderedElementsAre("address", "link", "masquerade", "forward", "ports"));
  const Server page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");

  MustRunEntry("DEL", network, 3, attached, attached.result);
  EXPECT_THAT(Parts("alloc-1"), UnorderedElementsAre("address", "link", "masquerade", "forward"));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "");
  EXPECT_TRUE(Ping(container(), kOutsideIp4));

  host().Must({"iptables", "-P", "FORWARD", "DROP"});
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  MustRunEntry("DEL", network, 2, attached, attached.result);
  EXPECT_THAT(Parts("alloc-1"), UnorderedElementsAre("address", "link", "masquerade"));
  EXPECT_FALSE(Ping(container(), kOutsideIp4));

  MustRunEntry("DEL", network, 1, attached, attached.result);
  EXPECT_THAT(Parts("alloc-1"), IsEmpty());
  EXPECT_FALSE(FindFile("/run/cni/nomad/172.26.64.2").has_value());
}

// A process that deletes from nf_tables waits for it, so bridge should find nothing left to delete.
TEST_F(ListOfReferenceNames, TheSecondDelRemovesTheRulesOfTheLast) {
  const Network network = Builtin();
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));
  MustRunEntry("DEL", network, 3, attached, attached.result);
  ASSERT_EQ(Members("masq4"), json({"172.26.64.2"}))
      << "the first DEL may be of its own part alone";

  MustRunEntry("DEL", network, 2, attached, attached.result);

  EXPECT_EQ(Members("masq4"), json::array());
  EXPECT_THAT(Parts("alloc-1"), UnorderedElementsAre("address", "link", "masquerade"));
}

TEST_F(ListOfReferenceNames, TheSameDelTwiceTakesItsPartAlone) {
  const Network network = Builtin();
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));

  for (int i = 0; i < 2; ++i) {
    MustRunEntry("DEL", network, 3, attached, attached.result);
  }

  EXPECT_EQ(Members("masq4"), json({"172.26.64.2"}));
  EXPECT_EQ(Members("alloc4"), json({"172.26.64.2"}));
}

TEST_F(ListOfReferenceNames, ADelThatWasKilledAndIsRetriedTakesItsPartAlone) {
  const Network network = Builtin();
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));
  const std::string path = RecordOf("alloc-1");
  json record = json::parse(FindFile(path).value());
  record["parts"]["ports"] = "leaving";
  ReplaceFile(path, record.dump());

  MustRunEntry("DEL", network, 3, attached, attached.result);

  EXPECT_EQ(Members("masq4"), json({"172.26.64.2"}));
  EXPECT_EQ(Members("alloc4"), json({"172.26.64.2"}));
}

TEST_F(ListOfReferenceNames, ADelAndAnAddOfOnePartLeaveNoMemoryOfIt) {
  const Network network = Builtin();
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));
  const Snapshot whole = TakeSnapshot();
  for (const std::size_t entry : {3U, 2U}) {
    SCOPED_TRACE(entry);
    MustRunEntry("DEL", network, entry, attached, attached.result);
    MustRunEntry("ADD", network, entry, attached, attached.result);
    EXPECT_TRUE(Unchanged(whole, TakeSnapshot()));
  }
  // Both gone, and only then both back: with them the masquerading that went along.
  for (const std::size_t entry : {3U, 2U}) {
    MustRunEntry("DEL", network, entry, attached, attached.result);
  }
  for (const std::size_t entry : {2U, 3U}) {
    MustRunEntry("ADD", network, entry, attached, attached.result);
  }
  EXPECT_TRUE(Unchanged(whole, TakeSnapshot()));
  ExpectPage(8080);
}

TEST_F(ListOfReferenceNames, AFailedAddLeavesAnAttachmentAsFarApartAsItWas) {
  const Network network = Builtin();
  MustAdd(network, Allocation("other", AddContainer("other"), 9090));
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));
  for (const std::size_t entry : {3U, 2U}) {
    MustRunEntry("DEL", network, entry, attached, attached.result);
  }
  const Snapshot before = TakeSnapshot();
  attached.port_mappings = {Port(9090, 80, "tcp")};

  EXPECT_EQ(ErrorCode(RunEntry("ADD", network, 3, attached, attached.result)), 102);

  // But for the ports in the record, of which it no longer has any.
  EXPECT_TRUE(
      Unchanged(before.Of({"host ", "container "}), TakeSnapshot().Of({"host ", "container "})));
  attached.port_mappings = json::array();
  MustRunEntry("ADD", network, 3, attached, attached.result);
  EXPECT_THAT(Members("masq4"), Contains("172.26.64.3")) << "nothing to publish, but it is back";
}

TEST_F(ListOfReferenceNames, ARecordOfAnEarlierVersionIsRead) {
  const Network network = Builtin();
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));
  const std::string path = RecordOf("alloc-1");
  json record = json::parse(FindFile(path).value());
  json names = json::array();  // all of them live
  for (const auto& [part, phase] : record.at("parts").items()) {
    names.push_back(part);
  }
  record["parts"] = names;
  record["delProgress"] = "";
  ReplaceFile(path, record.dump());
  MustCheckIn(network, attached);
}

// A DEL that never reaches the later plugins, as libcni's after an error in one of them.
TEST_F(ListOfReferenceNames, ADelOfTheBridgeAloneTakesEverything) {
  const Network network = Builtin();
  UseOnce(network);
  const Snapshot before = TakeSnapshot();
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));

  MustRunEntry("DEL", network, 1, attached, nullptr);

  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  MustDelFrom(network, attached);
}

TEST_F(ListOfReferenceNames, WithoutPrevResultPortsAndNamespaceDelTakesEverything) {
  const Network network = Builtin();
  UseOnce(network);
  Node& doomed = AddContainer("doomed");
  const Snapshot before = TakeHostSnapshot();
  Attached attached = MustAdd(network, Allocation("alloc-1", doomed));
  KillContainer(doomed);
  attached.port_mappings = json::array();

  attached.result = nullptr;
  MustDelFrom(network, attached);
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

// Nomad tries a failed ADD again in the same namespace, with no DEL in between.
TEST_F(ListOfReferenceNames, AListWhoseLastPluginFailedIsRepairedByTheRetry) {
  const Network network = Builtin();
  UseOnce(network);
  MustAdd(network, Allocation("other", AddContainer("other")));
  const Snapshot before = TakeSnapshot();

  Attached attached = Allocation("alloc-1", container());
  const Outcome add = AddTo(network, attached);
  EXPECT_EQ(ErrorCode(add), 102) << add;
  EXPECT_THAT(Msg(add), HasSubstr("job 'billing'"));
  EXPECT_THAT(Parts("alloc-1"), UnorderedElementsAre("address", "link", "masquerade", "forward"));
  attached.port_mappings = {Port(9090, 80, "tcp")};
  attached = MustAdd(network, attached);

  EXPECT_THAT(attached.result.dump(), HasSubstr("172.26.64.4/20")) << "the same address";
  ExpectPage(9090);
  MustDelFrom(network, attached);
  container().Must({"ip", "link", "set", "lo", "up"});
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

// Nomad after a CHECK that failed: a new namespace, the same id, no DEL.
TEST_F(ListOfReferenceNames, TakesOverInANewNamespaceWithTheSameAddress) {
  const Network network = Builtin();
  Node& old = AddContainer("old");
  Attached attached = MustAdd(network, Allocation("alloc-1", old));
  const json first = attached.result.at("ips");
  attached.netns = container().path();

  attached = MustAdd(network, attached);

  EXPECT_EQ(attached.result.at("ips"), first);
  ExpectPage(8080);
  MustCheckIn(network, attached);
}

TEST_F(ListOfReferenceNames, CheckByAnyNameRepairsTheHostsSide) {
  const Network network = Builtin();
  UseOnce(network);
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));
  const Snapshot whole = TakeSnapshot();
  for (const std::size_t entry : {1U, 2U, 3U}) {
    SCOPED_TRACE(entry);
    host().Must({"nft", "flush", "ruleset"});

    const Outcome check = MustRunEntry("CHECK", network, entry, attached, attached.result);
    EXPECT_THAT(check.err, HasSubstr("repaired"));
    EXPECT_TRUE(Unchanged(whole, TakeSnapshot()));
  }
}

TEST_F(ListOfReferenceNames, CheckRebuildsALostRecord) {
  const Network network = Builtin();
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));
  const Snapshot whole = TakeSnapshot();
  EnsureFileGone(RecordOf("alloc-1"));
  MustCheckIn(network, attached);
  EXPECT_TRUE(Unchanged(whole, TakeSnapshot()));
}

TEST_F(ListOfReferenceNames, CheckNamesAPartThatWasNeverAdded) {
  const Network network = Builtin();
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));
  MustRunEntry("DEL", network, 3, attached, nullptr);

  const Outcome check = RunEntry("CHECK", network, 3, attached, attached.result);

  EXPECT_EQ(ErrorCode(check), 103) << check;
  EXPECT_THAT(Details(check), HasSubstr("portmap"));
}

TEST_F(ListOfReferenceNames, TwentyAtOnceOnABareMachineComeAndGo) {
  const Network network = Builtin();
  constexpr std::size_t kCount = 20;
  std::vector<Attached> many;
  std::vector<Node*> nodes;
  for (std::size_t i = 0; i < kCount; ++i) {
    nodes.push_back(&AddContainer(Cat("container-", i)));
    many.push_back(Allocation(Cat("alloc-", i), *nodes.back(), 9000 + static_cast<int>(i)));
  }

  for (const std::size_t entry : {0U, 1U, 2U, 3U}) {
    AllAtOnce("ADD", network, entry, many);
  }

  EXPECT_EQ(Members("alloc4").size(), kCount);
  EXPECT_EQ(Members("masq4").size(), kCount);
  for (const Node* const node : nodes) {
    EXPECT_TRUE(Ping(*node, kOutsideIp4)) << node->name();
  }

  for (const std::size_t entry : {3U, 2U, 1U, 0U}) {
    AllAtOnce("DEL", network, entry, many);
  }

  EXPECT_EQ(Members("alloc4"), json::array());
  EXPECT_EQ(Members("masq4"), json::array());
  EXPECT_EQ(PortsOf("nomad"), json::array());
  EXPECT_THAT(Entries("/run/nomad-bridge/nomad"), IsEmpty());
}

TEST_F(ListOfReferenceNames, GcByAnyNameKeepsTheListedAndRemovesTheOthersWhole) {
  Network network = Builtin();
  network.list["cniVersion"] = "1.1.0";
  UseOnce(network);
  Attached kept = MustAdd(network, Allocation("kept", container()));
  const Snapshot with_kept = TakeSnapshot();
  for (const std::size_t entry : {1U, 2U, 3U}) {
    SCOPED_TRACE(entry);
    Node& lost_container = AddContainer(Cat("lost-", entry));
    Attached lost = MustAdd(network, Allocation("lost", lost_container, 9090));
    network.list["plugins"][entry]["cni.dev/valid-attachments"] = {
        {{"containerID", "kept"}, {"ifname", "eth0"}}};

    MustRunEntry("GC", network, entry, kept, nullptr);
    EXPECT_THAT(Parts("lost"), IsEmpty());
    KillContainer(lost_container);
    EXPECT_TRUE(Unchanged(with_kept, TakeSnapshot()));
  }
  ExpectPage(8080);
}

}  // namespace
}  // namespace nomad_bridge::test
