// A node whose iptables is the legacy one (of lost rules: either one), moved over to us while its
// allocations live: Nomad's own list, run by Debian's reference plugins before, by ours after.
#include "tests/plugin/names_moving_world.h"
#include "tests/support/mounted.h"
#include "tests/support/refusal.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kLegacyPrograms = "/run/legacy-programs";
constexpr const char* kLegacyTool = "iptables-legacy";
constexpr const char* kLegacyBinary = "/usr/sbin/xtables-legacy-multi";

class LegacyReferenceAttachment : public MovingWorld {
 protected:
  LegacyReferenceAttachment() {
    EnsureDirectory(kLegacyPrograms);
    for (const char* const name : {"iptables", "ip6tables"}) {
      fs::create_symlink(kLegacyBinary, Cat(kLegacyPrograms, '/', name));
    }
  }

  Network Theirs() {
    return {.list = list_,
            .path = kReferenceDirectory,
            .program_path = Cat(kLegacyPrograms, ":/usr/sbin:/usr/bin")};
  }
  // Publishes `port` by TCP and the one after it by UDP.
  static Attached Allocation(const std::string& id, const Node& container, int port) {
    return {.container_id = id,
            .netns = container.path(),
            .port_mappings = {Port(port, 80), Port(port + 1, 53, "udp")}};
  }

  std::string Legacy() { return RulesOf({"iptables-legacy", "ip6tables-legacy"}); }
  std::string RulesOf(const std::vector<std::string>& tools) {
    std::string all;
    for (const std::string& tool : tools) {
      for (const char* const table : {"nat", "filter"}) {
        all += host().Must({tool, "-t", table, "-S"});
      }
    }
    return all;
  }

  // Nomad's list with IPv6 beside its IPv4.
  void GiveIpv6() {
    list_["plugins"][1]["ipam"]["ranges"].push_back({{{"subnet", "fd00:1::/64"}}});
  }
};

TEST_F(LegacyReferenceAttachment, PassesOurCheckAndIsRemovedByOurDelWhileOthersStay) {
  Node& other_container = AddContainer("other");
  const Attached other = MustAdd(Theirs(), Allocation("older", other_container, 7080));
  const std::string before = Legacy();
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));
  ASSERT_THAT(Legacy(), HasSubstr("id: \\\"old\\\""));

  MustCheckIn(Ours(), old);
  MustDelFrom(Ours(), old);

  EXPECT_EQ(Legacy(), before);
  EXPECT_FALSE(FindFile("/var/run/cni/nomad/172.26.64.3").has_value());
  EXPECT_NE(container().Run({"ip", "link", "show", "eth0"}).exit_code, 0);
  MustCheckIn(Ours(), other);
  ExpectPublished(other_container, 7080);
  EXPECT_TRUE(Ping(other_container, kOutsideIp4));
}

TEST_F(LegacyReferenceAttachment, OfBothFamiliesPassesOurCheckAndIsRemovedByOurDel) {
  GiveIpv6();
  MustAdd(Theirs(), Allocation("older", AddContainer("other"), 7080));
  const std::string before = Legacy();
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));
  EXPECT_EQ(AddressOf(old.result, 6), "fd00:1::3");

  MustCheckIn(Ours(), old);
  for (const char* const rule :
       {"-s fd00:1::3", "-d fd00:1::3 -m conntrack --ctstate RELATED,ESTABLISHED"}) {
    host().Must({"sh", "-c", Cat("ip6tables-legacy -D CNI-FORWARD ", rule, " -j ACCEPT")});
  }
  EXPECT_THAT(MsgAndDetails(CheckIn(Ours(), old)), HasSubstr("accept its packets"));
  MustDelFrom(Ours(), old);

  EXPECT_EQ(Legacy(), before);
}

TEST_F(LegacyReferenceAttachment, IsRemovedByADelOfNomadBridgeAlone) {
  MustAdd(Theirs(), Allocation("older", AddContainer("other"), 7080));
  const std::string before = Legacy();
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));

  MustCheckIn(OursAlone(), old);
  MustDelFrom(OursAlone(), old);

  EXPECT_EQ(Legacy(), before);
  EXPECT_FALSE(FindFile("/var/run/cni/nomad/172.26.64.3").has_value());
}

// It has two leases, and the same rules are found by each.
TEST_F(LegacyReferenceAttachment, OfBothFamiliesIsRemovedByGc) {
  GiveIpv6();
  for (const auto& [network, suffix] :
       {std::pair(Theirs(), "-legacy"), std::pair(MovingWorld::Theirs(), "-nft")}) {
    const std::string older = Cat("older", suffix);
    MustAdd(network, Allocation(older, AddContainer(older), 7080));
    const std::vector<std::string> tools = {Cat("iptables", suffix), Cat("ip6tables", suffix)};
    const std::string before = RulesOf(tools);
    Node& old = AddContainer(Cat("old", suffix));
    MustAdd(network, Allocation("old", old, 7070));
    KillContainer(old);

    EXPECT_THAT(RunPlugin("GC", WithValid({older}), kNoContainer), Exits(0));

    EXPECT_EQ(RulesOf(tools), before);
    MustRun("DEL", Config(), As(older, container()));
  }
}

// The rules are read once for all that is stale. Meanwhile somebody else removes some of the next.
TEST_F(LegacyReferenceAttachment, WhoseRulesGoMeanwhileIsRemovedByGc) {
  const Network theirs = MovingWorld::Theirs();
  MustAdd(theirs, Allocation("older", AddContainer("older"), 7090));
  const std::string before = RulesOf({"iptables-nft"});
  std::map<std::string, std::string> addresses;
  for (const auto& [id, port] : {std::pair("one", 7070), std::pair("two", 7080)}) {
    Node& old = AddContainer(id);
    addresses[id] = AddressOf(MustAdd(theirs, Allocation(id, old, port)).result);
    KillContainer(old);
  }
  const auto has_rules = [&](const char* id) {
    return RulesOf({"iptables-nft"}).find(Cat("id: \\\"", id)) != std::string::npos;
  };
  ASSERT_TRUE(has_rules("one") && has_rules("two"));
  // Slow between the rules of the one and those of the other: at the lock of the leases.
  Process gc =
      Process::Start(UnderStrace(PluginCommand("GC", WithValid({"older"}).dump(), kNoContainer),
                                 "/run/strace",
                                 {"-e", "trace=flock", "-e", "inject=flock:delay_enter=1000000"}));
  ASSERT_TRUE(Soon([&] { return !has_rules("one") || !has_rules("two"); }));
  const char* const left = has_rules("one") ? "one" : "two";
  ASSERT_TRUE(has_rules(left));
  host().Shell(
      Format("iptables-nft -S CNI-FORWARD | grep {}/32 | sed 's/^-A/iptables-nft -D/' | sh -e",
             addresses.at(left)));

  EXPECT_THAT(gc.Wait(), Exits(0));

  EXPECT_EQ(RulesOf({"iptables-nft"}), before);
}

// Nomad after a CHECK that failed: a new namespace, the same id, no DEL.
TEST_F(LegacyReferenceAttachment, IsTakenOverByAnAddInANewNamespace) {
  Node& old_container = AddContainer("old");
  MustAdd(Theirs(), Allocation("alloc-1", old_container, 7070));
  KillContainer(old_container);

  MustAdd(Ours(), Allocation("alloc-1", container(), 7070));

  EXPECT_THAT(Legacy(), Not(HasSubstr("alloc-1")));
  EXPECT_THAT(Legacy(), Not(HasSubstr("CNI-DN-")));
  ExpectPublished(container(), 7070);
}

// ---- rules that are gone

struct Lost : Named {
  const char* table;
  // Of all rules in question, as "iptables -S" shows them.
  const char* beginning;
  const char* part;
  // With them the chain that they jump to.
  bool with_chain = false;
  // What CHECK reports; empty: the part is still there, so nothing is promised.
  const char* mismatch = "";
};

// Rules, in the tables of which tool.
using LostWhere = std::tuple<Lost, std::string>;

class LostReferenceRules : public LegacyReferenceAttachment,
                           public ::testing::WithParamInterface<LostWhere> {
 protected:
  Network Theirs() {
    return is_legacy_ ? LegacyReferenceAttachment::Theirs() : MovingWorld::Theirs();
  }

  std::string Rules() { return List("nat") + List("filter"); }

  // By the shell, which reads quotes as the tool writes them.
  void Delete() {
    std::string chain;
    for (const std::string& rule : Lines(List(lost_.table))) {
      if (rule.starts_with(lost_.beginning) && rule.find(lost_.part) != rule.npos) {
        host().Must({"sh", "-c", Cat(tool_, " -t ", lost_.table, " -D ", rule.substr(3))});
        chain = rule.substr(rule.rfind(' ') + 1);
      }
    }
    ASSERT_FALSE(chain.empty()) << "no such rule";
    if (lost_.with_chain) {
      host().Must({tool_, "-t", lost_.table, "-F", chain});
      host().Must({tool_, "-t", lost_.table, "-X", chain});
    }
  }

  const Lost lost_ = std::get<0>(GetParam());
  const std::string tool_ = std::get<1>(GetParam());
  const bool is_legacy_ = tool_ == kLegacyTool;

 private:
  std::string List(const char* table) { return host().Must({tool_, "-t", table, "-S"}); }
};

TEST_P(LostReferenceRules, AreReportedByCheckIfAPartIsGoneAndDoNotPreventDel) {
  MustAdd(Theirs(), Allocation("older", AddContainer("other"), 7080));
  const std::string before = Rules();
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));
  MustCheckIn(Ours(), old);
  ASSERT_NO_FATAL_FAILURE(Delete());

  if (*lost_.mismatch != '\0') {
    EXPECT_THAT(CheckIn(Ours(), old), Exits(Ne(0), MsgAndDetails(HasSubstr(lost_.mismatch))));
  }
  MustDelFrom(Ours(), old);

  EXPECT_EQ(Rules(), before);
}

const auto kLost = ::testing::Values(
    Lost{"BothAccepts", "filter", "-A CNI-FORWARD ", "172.26.64.3/32", false, "accept its packets"},
    Lost{"MasqueradeChain", "nat", "-A POSTROUTING -s 172.26.64.3/32", "", true, "masquerades"},
    Lost{"PortChain", "nat", "-A CNI-HOSTPORT-DNAT ", "id: \\\"old\\\"", true, "published ports"},
    Lost{"AcceptFrom", "filter", "-A CNI-FORWARD -s 172.26.64.3/32", "ACCEPT"},
    Lost{"AcceptTo", "filter", "-A CNI-FORWARD -d 172.26.64.3/32", "ACCEPT"},
    Lost{"Masquerade", "nat", "-A CNI-", "id: \\\"old\\\"\" -j MASQUERADE"},
    Lost{"TcpJump", "nat", "-A CNI-HOSTPORT-DNAT -p tcp", "--dports 7070"},
    Lost{"UdpJump", "nat", "-A CNI-HOSTPORT-DNAT -p udp", "--dports 7071"},
    Lost{"TcpDnat", "nat", "-A CNI-DN-", "172.26.64.3:80"},
    Lost{"UdpDnat", "nat", "-A CNI-DN-", "172.26.64.3:53"});
const auto kNameOfLost = [](const auto& test) { return std::string(std::get<0>(test.param).name); };

INSTANTIATE_TEST_SUITE_P(ThoroughInLegacy,
                         LostReferenceRules,
                         ::testing::Combine(kLost, ::testing::Values(kLegacyTool)),
                         kNameOfLost);
INSTANTIATE_TEST_SUITE_P(InNft,
                         LostReferenceRules,
                         ::testing::Combine(kLost, ::testing::Values("iptables-nft")),
                         kNameOfLost);
// In nf_tables a chain that nothing jumps to any more belongs to nobody, and stays.
INSTANTIATE_TEST_SUITE_P(OnlyInLegacy,
                         LostReferenceRules,
                         ::testing::Combine(::testing::Values(Lost{
                                                "MasqueradeJump",
                                                "nat",
                                                "-A POSTROUTING -s 172.26.64.3/32",
                                                "CNI-",
                                                false,
                                                "masquerades"}),
                                            ::testing::Values(kLegacyTool)),
                         kNameOfLost);

// ---- the tool

TEST_F(LegacyReferenceAttachment, BesideOursDoesNotMakeOurDelNeedTheTool) {
  MustAdd(Theirs(), Allocation("old", container(), 7070));
  Attached ours = Allocation("ours", AddContainer("ours"), 8080);
  ours.port_mappings = json::array();  // portmap has nothing of its own to remove
  ours = MustAdd(Ours(), ours);
  const Mounted nothing({"--bind", "/dev/null"}, kLegacyBinary);
  MustDelFrom(Ours(), ours);
  MustDelFrom(Ours(), {.container_id = "nobody", .netns = container().path()});
}

TEST_F(LegacyReferenceAttachment,
       IsReportedByCheckAndDelWithoutAToolThatWorksAndRemovedByTheNextDel) {
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));
  const std::string failing = "/run/failing-tool";
  WriteProgram(failing, "#!/bin/sh\necho 'Module ip_tables not found' >&2\nexit 3\n");
  for (const auto& [tool, said] :
       {std::pair<std::string, std::string>{"/dev/null", "iptables-legacy-save"},
        {failing, "iptables-legacy-save failed"},
        {failing, "exit code 3"}}) {
    const Mounted broken({"--bind", tool}, kLegacyBinary);
    for (const Outcome& outcome : {CheckIn(Ours(), old), DelFrom(Ours(), old)}) {
      EXPECT_THAT(outcome,
                  Exits(Ne(0), MsgAndDetails(AllOf(HasSubstr(said), Not(HasSubstr("not found"))))));
    }
  }
  MustDelFrom(Ours(), old);
  EXPECT_THAT(Legacy(), Not(HasSubstr("old")));
}

TEST_F(LegacyReferenceAttachment, IsLookedForOnlyWhereLegacyTablesAreInUse) {
  const Attached old = MustAdd(MovingWorld::Theirs(), Allocation("old", container(), 7070));
  const std::string recording = "/run/recording-tool";
  WriteProgram(recording, "#!/bin/sh\ntouch /run/started\n");
  const Mounted tool({"--bind", recording}, kLegacyBinary);

  MustCheckIn(Ours(), old);
  MustDelFrom(Ours(), old);
  MustAdd(Ours(), Allocation("young", container(), 8080));

  EXPECT_FALSE(fs::exists("/run/started"));
}

}  // namespace
}  // namespace nomad_bridge::test
