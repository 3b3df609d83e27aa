// The five reference names as Nomad runs them: one attachment, made and removed by four processes.

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class ListOfReferenceNames : public World {
 protected:
  static Network Builtin(const char* fixture = "nomad_builtin_bridge") {
    return ByOurs(Conflist(fixture));
  }

  Attached Allocation(const std::string& id, const Node& container, int port = 8080) {
    return WithPorts(
        id, container, {Port(port, 80), Port(port, 80, "udp")}, NomadArgs("billing", id));
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
    for (const auto& each : phases.items()) {
      parts.push_back(each.key());
    }
    return parts;
  }
};

// One of them, with all of its parts.
class AttachedByNames : public ListOfReferenceNames {
 protected:
  // `verb` of these entries, one after the other.
  void RunEntries(const std::string& verb, const std::vector<std::size_t>& entries) {
    for (const std::size_t entry : entries) {
      MustRunEntry(verb, network_, entry, attached_, attached_.result);
    }
  }

  const Network network_ = Builtin();
  Attached attached_ = MustAdd(network_, Allocation("alloc-1", container()));
};

TEST_F(ListOfReferenceNames, NomadsOwnListGivesTheNetworkThatNomadBridgeGivesAlone) {
  const Network builtin = Builtin();
  const Network alone = ByOurs(ListOf({{{"type", "nomad-bridge"},
                                        {"hairpinMode", false},
                                        {"inbound", "any"},
                                        {"sourceCheck", false},
                                        {"ipam", {{"routes", {{{"dst", "0.0.0.0/0"}}}}}},
                                        {"capabilities", {{"portMappings", true}}}}},
                                      "nomad",
                                      "0.4.0"));
  Attached attached = MustAdd(builtin, Allocation("alloc-1", container()));
  const Snapshot by_list = TakeSnapshot();
  const json list_result = attached.result;
  MustDelFrom(builtin, attached);
  EnsureFileGone("/var/run/cni/nomad/last_reserved_ip.0");  // else the next address is another

  attached = MustAdd(alone, attached);

  EXPECT_EQ(attached.result, list_result);
  // But for the record, in which lo is one of the parts.
  EXPECT_TRUE(Unchanged(by_list.Of({"host ", "container ", "outside "}),
                        TakeSnapshot().Of({"host ", "container ", "outside "})));
  ExpectPage(8080);
}

TEST_F(ListOfReferenceNames, CarriesTrafficPassesCheckAndLeavesNoTrace) {
  for (const char* const fixture : {"nomad_builtin_bridge", "nomad_builtin_bridge_dual_stack"}) {
    SCOPED_TRACE(fixture);
    const Network network = Builtin(fixture);
    UseOnce(network);
    const Snapshot before = TakeSnapshot();
    Attached attached = MustAdd(network, Allocation("alloc-1", container()));

    ExpectPage(8080);
    EXPECT_TRUE(Ping(container(), kOutsideIp4));
    EXPECT_THAT(MustCheckIn(network, attached), Err(""));
    MustDelFrom(network, attached);
    EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  }
}

TEST_F(AttachedByNames, DelOfTheBridgeRemovesTheRulesOfAll) {
  EXPECT_THAT(Parts("alloc-1"),
              UnorderedElementsAre("address", "link", "masquerade", "forward", "ports"));
  const Snapshot whole = TakeSnapshot();
  host().Must({"iptables", "-P", "FORWARD", "DROP"});

  RunEntries("DEL", {3, 2, 3});

  ExpectPage(8080);
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  host().Must({"iptables", "-P", "FORWARD", "ACCEPT"});
  EXPECT_TRUE(Unchanged(whole, TakeSnapshot()));
  RunEntries("DEL", {1});
  EXPECT_THAT(Parts("alloc-1"), IsEmpty());
  EXPECT_THAT(Leased(), IsEmpty());
  for (const char* const set : {"alloc4", "masq4", "snat4", "port4", "bridges"}) {
    EXPECT_EQ(Elements(set), json::array()) << set;
  }
}

TEST_F(AttachedByNames, DelOfTheRulesLeavesThemAlsoIfTheRecordIsLost) {
  EnsureFileGone(RecordOf("alloc-1"));
  const Snapshot whole = TakeSnapshot();
  RunEntries("DEL", {3, 2});
  EXPECT_TRUE(Unchanged(whole, TakeSnapshot()));
  ExpectPage(8080);
  RunEntries("DEL", {1});
  EXPECT_EQ(Elements("port4"), json::array());
  EXPECT_THAT(Leased(), IsEmpty());
}

TEST_F(AttachedByNames, ADelAndAnAddOfOnePartRestoreTheAttachment) {
  const Snapshot whole = TakeSnapshot();
  for (const std::size_t entry : {3U, 2U}) {
    SCOPED_TRACE(entry);
    RunEntries("DEL", {entry});
    RunEntries("ADD", {entry});
    EXPECT_TRUE(Unchanged(whole, TakeSnapshot()));
  }
  RunEntries("DEL", {3, 2});
  RunEntries("ADD", {2, 3});
  EXPECT_TRUE(Unchanged(whole, TakeSnapshot()));
  ExpectPage(8080);
}

TEST_F(ListOfReferenceNames, AFailedAddOfPortmapLeavesTheOtherParts) {
  const Network network = Builtin();
  MustAdd(network, Allocation("other", AddContainer("other"), 9090));
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));
  attached.port_mappings = {Port(9090, 80, "tcp")};

  EXPECT_EQ(ErrorCode(RunEntry("ADD", network, 3, attached, attached.result)), 102);

  EXPECT_THAT(Parts("alloc-1"), UnorderedElementsAre("address", "link", "masquerade", "forward"));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  attached.port_mappings = {Port(8080, 80, "tcp")};
  MustRunEntry("ADD", network, 3, attached, attached.result);
  ExpectPage(8080);
}

// A DEL that never reaches the later plugins, as libcni's after an error in one of them.
TEST_F(ListOfReferenceNames, ADelOfTheBridgeAloneRemovesEverything) {
  const Network network = Builtin();
  UseOnce(network);
  const Snapshot before = TakeSnapshot();
  Attached attached = MustAdd(network, Allocation("alloc-1", container()));

  MustRunEntry("DEL", network, 1, attached, nullptr);

  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  MustDelFrom(network, attached);
}

TEST_F(ListOfReferenceNames, DelRemovesEverythingWithoutPrevResultPortsAndNamespace) {
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
  EXPECT_THAT(AddTo(network, attached), Fails(102, Msg(HasSubstr("job 'billing'"))));
  EXPECT_THAT(Parts("alloc-1"), UnorderedElementsAre("address", "link", "masquerade", "forward"));
  attached.port_mappings = {Port(9090, 80, "tcp")};
  attached = MustAdd(network, attached);

  EXPECT_THAT(attached.result.dump(), HasSubstr("172.26.64.3/20")) << "the same address";
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

    EXPECT_THAT(MustRunEntry("CHECK", network, entry, attached, attached.result),
                Err(HasSubstr("repaired")));
    EXPECT_TRUE(Unchanged(whole, TakeSnapshot()));
  }
}

TEST_F(AttachedByNames, CheckRebuildsALostRecord) {
  ForgetAge("alloc-1");
  const Snapshot whole = TakeSnapshot();
  EnsureFileGone(RecordOf("alloc-1"));
  MustCheckIn(network_, attached_);
  EXPECT_TRUE(Unchanged(whole, TakeSnapshot()));
}

TEST_F(ListOfReferenceNames, CheckNamesAPartThatWasNeverAdded) {
  const Network network = Builtin();
  Network without = network;
  without.list["plugins"].erase(3);
  const Attached attached = MustAdd(without, Allocation("alloc-1", container()));

  EXPECT_THAT(RunEntry("CHECK", network, 3, attached, attached.result),
              Fails(103, Details(HasSubstr("portmap"))));
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

TEST_F(ListOfReferenceNames, GcByAnyNameKeepsListedAttachmentsAndRemovesOthers) {
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
