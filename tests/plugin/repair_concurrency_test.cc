// Many commands at once, and locks that are not given back.
#include <csignal>

#include <fcntl.h>
#include <sys/file.h>

#include "tests/support/killing.h"
#include "tests/support/rules_lock.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class ManyCommandsAtOnce : public World {
 protected:
  static constexpr int kMany = 20;

  // "c0" to "c19".
  void MakeContainers() {
    for (int i = 0; i < kMany; ++i) {
      nodes_.push_back(&AddContainer(Cat("c", i)));
    }
  }

  static json ConfigOf(int i) { return Publish({Port(8000 + i, 80)}, DualStack()); }

  Process StartFor(int i, const std::string& verb) {
    return StartPlugin(verb, ConfigOf(i), As(Cat("c", i), *nodes_.at(static_cast<size_t>(i))));
  }

  // All of them at the same time, each with its verb; what they printed.
  std::vector<Outcome> RunAll(const std::function<std::string(int i)>& verb_of) {
    std::vector<Process> running;
    running.reserve(kMany);
    for (int i = 0; i < kMany; ++i) {
      running.push_back(StartFor(i, verb_of(i)));
    }
    std::vector<Outcome> outcomes;
    for (Process& process : running) {
      outcomes.push_back(process.Wait());
      EXPECT_THAT(outcomes.back(), Exits(0));
    }
    return outcomes;
  }

  // Their first addresses.
  std::set<std::string> AddAll() {
    std::set<std::string> addresses;
    for (const Outcome& add : RunAll([](int) { return "ADD"; })) {
      addresses.insert(AddressOf(add.json));
    }
    return addresses;
  }

  // Every chain of the host with its rules.
  std::string Chains() { return TakeHostSnapshot().Of({"host nft"}).Lines(" chain "); }

  std::vector<Node*> nodes_;
};

TEST_F(ManyCommandsAtOnce, TwentyFirstAddsOnABareMachineAllSucceed) {
  MakeContainers();
  EXPECT_EQ(AddAll().size(), static_cast<size_t>(kMany));
  EXPECT_EQ(Leases().size(), static_cast<size_t>(2 * kMany)) << "one of each family";
  EXPECT_EQ(PortsOf("nomad").size(), static_cast<size_t>(kMany));
  const std::string gateways =
      host().Must({"ip", "-o", "address", "show", "dev", "nomad", "scope", "global"});
  EXPECT_EQ(std::count(gateways.begin(), gateways.end(), '\n'), 2) << gateways;
  for (const Node* const node : nodes_) {
    EXPECT_TRUE(Ping(*node, kOutsideIp4)) << node->name();
    EXPECT_TRUE(Ping(*node, kOutsideIp6)) << node->name();
  }
}

TEST_F(ManyCommandsAtOnce, TwentyFirstAddsMakeEveryRuleOnce) {
  MakeContainers();
  // The rules of one ADD alone are the expected ones; then the machine is bare again.
  Attach(ConfigOf(0));
  const std::string of_one = Chains();
  EXPECT_THAT(of_one, AllOf(HasSubstr("nomad-bridge chain"), HasSubstr("CNI-FORWARD")));
  Detach(ConfigOf(0));
  host().Must({"nft", "flush", "ruleset"});
  host().Must({"ip", "link", "del", "nomad"});
  fs::remove_all("/run/nomad-bridge");

  AddAll();

  EXPECT_EQ(Chains(), of_one);
}

TEST_F(ManyCommandsAtOnce, AddsAndDelsOfDifferentContainersDoNotDisturbEachOther) {
  MakeContainers();
  UseOnce(ConfigOf(0), As("c0", *nodes_.front()));
  for (const Node* const node : nodes_) {
    node->Must({"ip", "link", "set", "lo", "up"});
  }
  const Snapshot before = TakeSnapshot();
  for (int i = 0; i < kMany; i += 2) {
    EXPECT_EQ(StartFor(i, "ADD").Wait().exit_code, 0);
  }
  // The odd ones come while the even ones go, and then the other way round.
  for (const int coming : {1, 0}) {
    RunAll([&](int i) { return i % 2 == coming ? "ADD" : "DEL"; });
    EXPECT_EQ(Leases().size(), static_cast<size_t>(kMany));
  }
  for (int i = 0; i < kMany; i += 2) {
    const Server page =
        Server::Start(*nodes_[static_cast<size_t>(i)], Protocol::kTcp, "0.0.0.0", 80, "page");
    EXPECT_EQ(TcpText(outside(), kHostIp4, static_cast<std::uint16_t>(8000 + i)), "page");
    EXPECT_EQ(StartFor(i, "DEL").Wait().exit_code, 0);
  }
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

TEST_F(ManyCommandsAtOnce, TheLastDelRemovesSharedElements) {
  MakeContainers();
  for (int round = 0; round < 3; ++round) {
    AddAll();
    EXPECT_NE(Elements("gateways"), json::array());
    RunAll([](int) { return "DEL"; });
    EXPECT_EQ(Elements("bridges"), json::array());
    EXPECT_EQ(Elements("gateways"), json::array());
  }
}

// Before its last step: its rules are gone, its record is there.
TEST_F(ManyCommandsAtOnce, AKilledDelDoesNotKeepSharedElements) {
  const Variables other = As("other", AddContainer("other"));
  Attach(Config());
  Attach(Config(), other);
  json record = ReadRecord("alloc-1");
  for (json& phase : record.at("parts")) {
    phase = "leaving";
  }
  Detach(Config());
  WriteRecord("alloc-1", record);

  Detach(Config(), other);

  EXPECT_EQ(Elements("bridges"), json::array());
  EXPECT_EQ(Elements("gateways"), json::array());
}

// Each command beside it finds the ruleset changed, and repairs what others should have.
TEST_F(ManyCommandsAtOnce, ChurnBesideForeignChangesLeavesNoDeletedElements) {
  constexpr int kRounds = 6;
  MakeContainers();
  UseOnce(ConfigOf(0), As("c0", *nodes_.front()));
  const auto elements = [&] { return TakeHostSnapshot().Of({"host nft inet"}).Lines(" element "); };
  const std::string before = elements();
  Command tool;
  tool.argv = {
      "sh", "-c", "while nft add table ip tool && nft delete table ip tool; do sleep 0.05; done"};
  tool.in_child = [&] { host().Enter(); };
  const Process changes_the_ruleset = Process::Start(tool);
  for (int round = 0; round < 2 * kRounds; ++round) {
    RunAll([&](int i) { return i % 2 == round % 2 ? "ADD" : "DEL"; });
  }
  for (int i = 0; i < kMany; ++i) {
    EXPECT_EQ(StartFor(i, "DEL").Wait().exit_code, 0);
  }
  EXPECT_EQ(elements(), before);
}

TEST_F(ManyCommandsAtOnce, AddAndDelOfTheSameContainerLeaveAllOrNothing) {
  const json config = Publish({Port(8080, 80)});
  UseOnce(config);
  const Snapshot before = TakeSnapshot();
  for (int round = 0; round < 5; ++round) {
    Process add = StartPlugin("ADD", config);
    Process del = StartPlugin("DEL", config);
    const Outcome added = add.Wait();
    EXPECT_THAT(del.Wait(), Exits(0));
    EXPECT_EQ(added.exit_code, 0) << added;
    if (HasRecord("alloc-1")) {
      MustCheck(config, added.json);
      Detach(config);
    }
    EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  }
}

TEST_F(ManyCommandsAtOnce, TwoAddsOfTheSameContainerEndInOneAttachment) {
  const json config = Publish({Port(8080, 80)});
  UseOnce(config);
  const Snapshot before = TakeSnapshot();
  for (int round = 0; round < 5; ++round) {
    Process one = StartPlugin("ADD", config);
    Process other = StartPlugin("ADD", config);
    const Outcome first = one.Wait();
    const Outcome second = other.Wait();
    EXPECT_EQ(first.exit_code, 0) << first;
    EXPECT_EQ(second.exit_code, 0) << second;
    EXPECT_EQ(first.json, second.json);
    EXPECT_EQ(Leases().size(), 1U);
    MustCheck(config, first.json);
    Detach(config);
    EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  }
}

// Into the bridge that an ADD had to make anew it puts those of others, too, without their locks.
TEST_F(ManyCommandsAtOnce, ALinkMayVanishWhileAnotherAddPlugsItIntoANewBridge) {
  const Variables other = As("other", AddContainer("other"));
  for (int nth = FirstPoint(), calls = nth; nth <= calls && !HasFailure(); nth += PointStep()) {
    SCOPED_TRACE(Cat("at call ", nth));
    const std::string veth = HostVethOf(Attach(Config(), other));
    host().Must(Words("ip link delete nomad"));
    const Killing add = RunDisturbedAt(PluginCommand("ADD", Config().dump()), nth, [&] {
      host().Must({"ip", "link", "delete", veth});
    });
    EXPECT_EQ(add.outcome.exit_code, 0) << add.outcome;
    calls = add.calls;
    Detach(Config());
    Detach(Config(), other);
  }
}

// Somebody holds the leases of one network, and the rules of the node, and does not let go. Both at
// once, because our patience is ten seconds.
TEST_F(ManyCommandsAtOnce, ALockThatIsHeldForTooLongIsNamedInTheError) {
  const json second = Config({{"name", "second"}, {"ipam", {{"subnet", "10.9.0.0/24"}}}});
  // Their leases keep the directory.
  Attach(Config(), As("third", AddContainer("third")));
  const Variables other = As("other", AddContainer("other"));
  UseOnce(second, other);
  const Snapshot before = TakeSnapshot();
  const std::string lease_lock = Cat(kLeases, "/lock");
  const UniqueFd leases(::open(lease_lock.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(leases.get(), LOCK_EX | LOCK_NB), 0);
  const UniqueFd rules = TryRulesLock();
  ASSERT_TRUE(rules);

  Command with_alarms_blocked = PluginCommand("ADD", Config().dump());
  with_alarms_blocked.in_child = [] {
    sigset_t alarm;
    ::sigemptyset(&alarm);
    ::sigaddset(&alarm, SIGALRM);
    ::sigprocmask(SIG_BLOCK, &alarm, nullptr);
  };
  Process waits_for_leases = Process::Start(with_alarms_blocked);
  Process waits_for_rules = StartPlugin("ADD", second, other);
  EXPECT_THAT(waits_for_leases.Wait(),
              Fails(11, MsgAndDetails(AllOf(HasSubstr("leases"), HasSubstr(lease_lock)))));
  EXPECT_THAT(
      waits_for_rules.Wait(),
      Fails(11, MsgAndDetails(AllOf(HasSubstr("rules"), HasSubstr("/run/nomad-bridge/.lock")))));
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

}  // namespace
}  // namespace nomad_bridge::test
