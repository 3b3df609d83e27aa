// A node whose iptables is the legacy one (of lost rules: either one), moved over to us while its
// allocations live: Nomad's own list, run by the reference plugins of Debian before, by ours after.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/text.h"
#include "tests/plugin/names_moving_world.h"

namespace nomad_bridge::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kLegacyPrograms = "/run/legacy-programs";
constexpr const char* kLegacyTool = "iptables-legacy";
constexpr const char* kLegacyBinary = "/usr/sbin/xtables-legacy-multi";

// Another file in the place of iptables-legacy, for as long as this lives.
class InPlaceOfLegacy {
 public:
  InPlaceOfLegacy(const Node& node, const std::string& file) : node_(node) {
    node_.Must({"mount", "--bind", file, kLegacyBinary});
  }
  ~InPlaceOfLegacy() { static_cast<void>(node_.Run({"umount", kLegacyBinary})); }
  InPlaceOfLegacy(const InPlaceOfLegacy&) = delete;
  InPlaceOfLegacy& operator=(const InPlaceOfLegacy&) = delete;

 private:
  const Node& node_;
};

class MovingLegacy : public MovingWorld {
 protected:
  MovingLegacy() {
    EnsureFolder(kLegacyPrograms);
    for (const char* const name : {"iptables", "ip6tables"}) {
      std::filesystem::create_symlink(kLegacyBinary, Cat(kLegacyPrograms, '/', name));
    }
  }

  Network Theirs() {
    return {.list = list_,
            .path = kReferenceFolder,
            .program_path = Cat(kLegacyPrograms, ":/usr/sbin:/usr/bin")};
  }
  // Publishes `port` by TCP and the one after it by UDP.
  static Attached Allocation(const std::string& id, const Node& container, int port) {
    return {.container_id = id,
            .container = &container,
            .port_mappings = {Port(port, 80, "tcp"), Port(port + 1, 53, "udp")},
            .args = {}};
  }

  std::string Legacy() {
    std::string all;
    for (const char* const tool : {"iptables-legacy", "ip6tables-legacy"}) {
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

TEST_F(MovingLegacy, TheirsPassOurCheckAndGoByOurDelWhileOthersStay) {
  Node& other_guest = AddContainer("other");
  const Attached other = MustAdd(Theirs(), Allocation("older", other_guest, 7080));
  const std::string before = Legacy();
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));
  ASSERT_THAT(Legacy(), HasSubstr("id: \\\"old\\\""));

  const Outcome check = CheckIn(Ours(), old);
  EXPECT_EQ(check.exit_code, 0) << check;
  const Outcome del = DelFrom(Ours(), old);

  EXPECT_EQ(del.exit_code, 0) << del;
  EXPECT_EQ(Legacy(), before);
  EXPECT_FALSE(FindFile("/var/run/cni/nomad/172.26.64.3").has_value());
  EXPECT_NE(container().Run({"ip", "link", "show", "eth0"}).exit_code, 0);
  EXPECT_EQ(CheckIn(Ours(), other).exit_code, 0);
  const Server page = Server::Start(other_guest, Protocol::kTcp, "0.0.0.0", 80, "other");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 7080), "other");
  EXPECT_TRUE(Ping(other_guest, kOutsideIp4));
}

TEST_F(MovingLegacy, TheirsOfBothFamiliesPassAndGoToo) {
  GiveIpv6();
  MustAdd(Theirs(), Allocation("older", AddContainer("other"), 7080));
  const std::string before = Legacy();
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));
  EXPECT_EQ(AddressOf(old.result, 6), "fd00:1::3");

  EXPECT_EQ(CheckIn(Ours(), old).exit_code, 0);
  host().Must({"ip6tables-legacy", "-D", "CNI-FORWARD", "-s", "fd00:1::3", "-j", "ACCEPT"});
  EXPECT_THAT(Said(CheckIn(Ours(), old)), HasSubstr("let it talk"));
  EXPECT_EQ(DelFrom(Ours(), old).exit_code, 0);

  EXPECT_EQ(Legacy(), before);
}

TEST_F(MovingLegacy, ADelByNomadBridgeAloneTakesAllAsWell) {
  MustAdd(Theirs(), Allocation("older", AddContainer("other"), 7080));
  const std::string before = Legacy();
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));

  const Outcome check = CheckIn(OursAlone(), old);
  EXPECT_EQ(check.exit_code, 0) << check;
  EXPECT_EQ(DelFrom(OursAlone(), old).exit_code, 0);

  EXPECT_EQ(Legacy(), before);
  EXPECT_FALSE(FindFile("/var/run/cni/nomad/172.26.64.3").has_value());
}

// Nomad after a CHECK that failed: a new namespace, the same id, no DEL.
TEST_F(MovingLegacy, AnAddOfTheirsInANewNamespaceIsTakenOver) {
  Node& old_guest = AddContainer("old");
  MustAdd(Theirs(), Allocation("alloc-1", old_guest, 7070));
  KillContainer(old_guest);

  MustAdd(Ours(), Allocation("alloc-1", container(), 7070));

  EXPECT_THAT(Legacy(), Not(HasSubstr("alloc-1")));
  EXPECT_THAT(Legacy(), Not(HasSubstr("CNI-DN-")));
  const Server page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 7070), "page");
}

// ---- any one rule that is gone

struct Lost {
  const char* name;
  const char* table;
  const char* beginning;  // of the rule as "iptables -S" shows it
  const char* end;
  const char* fault;
};

// One of them, in the tables of which tool.
using LostWhere = std::tuple<Lost, const char*>;

class LostRule : public MovingLegacy, public ::testing::WithParamInterface<LostWhere> {
 protected:
  Network Theirs() { return is_legacy_ ? MovingLegacy::Theirs() : MovingWorld::Theirs(); }

  std::string Rules() { return List("nat") + List("filter"); }

  // By the shell, which reads quotes as the tool writes them.
  void DeleteIt() {
    std::istringstream rules(List(lost_.table));
    for (std::string rule; std::getline(rules, rule);) {
      if (rule.starts_with(lost_.beginning) && rule.find(lost_.end) != rule.npos) {
        host().Must({"sh", "-c", Cat(tool_, " -t ", lost_.table, " -D ", rule.substr(3))});
        return;
      }
    }
    FAIL() << "no such rule";
  }

  const Lost lost_ = std::get<0>(GetParam());
  const std::string tool_ = std::get<1>(GetParam());
  const bool is_legacy_ = tool_ == kLegacyTool;

 private:
  std::string List(const char* table) { return host().Must({tool_, "-t", table, "-S"}); }
};

TEST_P(LostRule, IsNamedByCheckAndNoHindranceToDel) {
  MustAdd(Theirs(), Allocation("older", AddContainer("other"), 7080));
  const std::string before = Rules();
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));
  EXPECT_EQ(CheckIn(Ours(), old).exit_code, 0);
  DeleteIt();

  const Outcome check = CheckIn(Ours(), old);
  EXPECT_NE(check.exit_code, 0);
  EXPECT_THAT(Said(check), HasSubstr(lost_.fault));
  const Outcome del = DelFrom(Ours(), old);

  EXPECT_EQ(del.exit_code, 0) << del;
  EXPECT_EQ(Rules(), before);
}

constexpr Lost kMasqueradeJump{"MasqueradeJump",
                               "nat",
                               "-A POSTROUTING -s 172.26.64.3/32",
                               "CNI-",
                               "masquerades"};
const auto kLost = ::testing::Values(
    Lost{"AcceptFrom", "filter", "-A CNI-FORWARD -s 172.26.64.3/32", "ACCEPT", "let it talk"},
    Lost{"AcceptTo", "filter", "-A CNI-FORWARD -d 172.26.64.3/32", "ACCEPT", "let it talk"},
    Lost{"Masquerade", "nat", "-A CNI-", "id: \\\"old\\\"\" -j MASQUERADE", "masquerades"},
    Lost{"TcpJump", "nat", "-A CNI-HOSTPORT-DNAT -p tcp", "--dports 7070", "published ports"},
    Lost{"UdpJump", "nat", "-A CNI-HOSTPORT-DNAT -p udp", "--dports 7071", "published ports"},
    Lost{"TcpDnat", "nat", "-A CNI-DN-", "172.26.64.3:80", "published ports"},
    Lost{"UdpDnat", "nat", "-A CNI-DN-", "172.26.64.3:53", "published ports"});
const auto name_of = [](const auto& test) { return std::string(std::get<0>(test.param).name); };

INSTANTIATE_TEST_SUITE_P(InLegacy,
                         LostRule,
                         ::testing::Combine(kLost, ::testing::Values(kLegacyTool)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(InNft,
                         LostRule,
                         ::testing::Combine(kLost, ::testing::Values("iptables-nft")),
                         name_of);
// In nf_tables a chain that nothing jumps to any more is nobody's, and stays.
INSTANTIATE_TEST_SUITE_P(OnlyInLegacy,
                         LostRule,
                         ::testing::Combine(::testing::Values(kMasqueradeJump),
                                            ::testing::Values(kLegacyTool)),
                         name_of);

// ---- the tool

TEST_F(MovingLegacy, AToolThatIsMissingIsNamedByCheckAndDel) {
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));
  {
    const InPlaceOfLegacy nothing(host(), "/dev/null");
    for (const Outcome& outcome : {CheckIn(Ours(), old), DelFrom(Ours(), old)}) {
      EXPECT_NE(outcome.exit_code, 0);
      EXPECT_THAT(Said(outcome),
                  AllOf(HasSubstr("iptables-legacy-save"), Not(HasSubstr("not found"))));
    }
    const Attached stranger{.container_id = "nobody", .container = &container()};
    const Outcome del = DelFrom(Ours(), stranger);
    EXPECT_EQ(del.exit_code, 0) << del;
  }
  EXPECT_EQ(DelFrom(Ours(), old).exit_code, 0);
  EXPECT_THAT(Legacy(), Not(HasSubstr("old")));
}

TEST_F(MovingLegacy, OursGoWithoutTheTool) {
  MustAdd(Theirs(), Allocation("old", container(), 7070));
  Node& ours_guest = AddContainer("ours");
  Attached ours = Allocation("ours", ours_guest, 8080);
  ours.port_mappings = json::array();  // portmap has nothing of its own to remove
  ours = MustAdd(Ours(), ours);
  const InPlaceOfLegacy nothing(host(), "/dev/null");
  const Outcome del = DelFrom(Ours(), ours);
  EXPECT_EQ(del.exit_code, 0) << del;
}

TEST_F(MovingLegacy, AToolThatFailsIsReportedAndTheNextDelDoesIt) {
  const Attached old = MustAdd(Theirs(), Allocation("old", container(), 7070));
  const std::string failing = "/run/failing-tool";
  std::ofstream(failing) << "#!/bin/sh\necho 'Module ip_tables not found' >&2\nexit 3\n";
  std::filesystem::permissions(failing, std::filesystem::perms::owner_all);
  {
    const InPlaceOfLegacy tool(host(), failing);
    for (const Outcome& outcome : {CheckIn(Ours(), old), DelFrom(Ours(), old)}) {
      EXPECT_NE(outcome.exit_code, 0);
      EXPECT_THAT(Said(outcome),
                  AllOf(HasSubstr("iptables-legacy-save failed"),
                        HasSubstr("exit code 3"),
                        Not(HasSubstr("not found"))));
    }
  }
  EXPECT_EQ(DelFrom(Ours(), old).exit_code, 0);
  EXPECT_THAT(Legacy(), Not(HasSubstr("old")));
}

TEST_F(MovingLegacy, NothingIsStartedWhereNoLegacyTableIsInUse) {
  const Attached old = MustAdd(MovingWorld::Theirs(), Allocation("old", container(), 7070));
  const std::string tattling = "/run/tattling-tool";
  std::ofstream(tattling) << "#!/bin/sh\ntouch /run/started\n";
  std::filesystem::permissions(tattling, std::filesystem::perms::owner_all);
  const InPlaceOfLegacy tool(host(), tattling);

  EXPECT_EQ(CheckIn(Ours(), old).exit_code, 0);
  EXPECT_EQ(DelFrom(Ours(), old).exit_code, 0);
  MustAdd(Ours(), Allocation("young", container(), 8080));

  EXPECT_FALSE(std::filesystem::exists("/run/started"));
}

}  // namespace
}  // namespace nomad_bridge::test
