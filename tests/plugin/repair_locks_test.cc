// That a lock is held whenever a command changes what the lock guards. Two commands side by side
// meet only now and then at the same moment; this looks before each call of one.
#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/text.h"
#include "tests/plugin/cli_world.h"
#include "tests/support/rules_lock.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kLockFile = "/run/nomad-bridge/.lock";

// What is guarded, by the lock that does so: "rules", "leases", or a record's name. Its value
// changes with what is guarded.
using Guarded = std::map<std::string, std::string>;

Guarded FindGuarded() {
  Guarded guarded;
  guarded["rules"] = Execute(Command{.argv = Words("nft list table inet nomad-bridge")}).out;
  for (const std::string& name : Entries(kLeases)) {
    if (name != "lock") {
      guarded["leases"] += Cat(name, ' ', FindFile(Cat(kLeases, '/', name)).value_or(""), '\n');
    }
  }
  for (const std::string& name : Entries(kRecords)) {
    if (name.ends_with(".json")) {
      guarded[name] = FindFile(Cat(kRecords, '/', name)).value_or("");
    }
  }
  return guarded;
}

// Owns nothing if some process has it, or its file is not there.
UniqueFd TryTake(const std::string& lock) {
  if (lock == "rules") {
    return TryRulesLock();
  }
  if (lock == "leases") {
    UniqueFd fd(::open(Cat(kLeases, "/lock").c_str(), O_RDONLY | O_CLOEXEC));
    return ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(fd) : UniqueFd();
  }
  const std::string id = Cat("nomad/", lock.substr(0, lock.find(".json")));
  const std::uint64_t byte = (StableHash(id) | 1) & INT64_MAX;
  UniqueFd fd(::open(kLockFile, O_RDWR | O_CLOEXEC));
  struct flock range {
    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = static_cast<off_t>(byte), .l_len = 1
  };
  return ::fcntl(fd.get(), F_OFD_SETLK, &range) == 0 ? std::move(fd) : UniqueFd();
}

bool IsHeld(const std::string& lock) {
  return !TryTake(lock) && (errno == EAGAIN || errno == EACCES);
}

// Whether some process waits for a lock in this file.
bool IsWaitedFor(const char* path) {
  struct stat file {};
  ::stat(path, &file);
  const std::string name =
      Cat(Hex(major(file.st_dev), 2), ':', Hex(minor(file.st_dev), 2), ':', file.st_ino, ' ');
  const std::vector<std::string> locks = Lines(FindFile("/proc/locks").value_or(""));
  return std::ranges::any_of(locks, [&](const std::string& line) {
    return line.find("-> ") != line.npos && line.find(name) != line.npos;
  });
}

std::set<std::string> Differences(const Guarded& before, const Guarded& after) {
  std::set<std::string> different;
  for (const auto& [one, other] : {std::pair(&before, &after), std::pair(&after, &before)}) {
    for (const auto& [lock, value] : *one) {
      const auto found = other->find(lock);
      if (found == other->end() || found->second != value) {
        different.insert(lock);
      }
    }
  }
  return different;
}

class Locks : public CliWorld {
 protected:
  Locks() : result_(Attach(kConfig)) {}

  // Runs `command`, which is to change what these locks guard, and nothing else.
  void ExpectHeldBy(const Command& command, const std::set<std::string>& locks, int exit_code = 0) {
    Guarded before = FindGuarded();
    std::set<std::string> held;  // when the call began that is over now
    std::set<std::string> changed;
    const auto look = [&] {
      Guarded after = FindGuarded();
      for (const std::string& lock : Differences(before, after)) {
        changed.insert(lock);
        EXPECT_TRUE(held.contains(lock))
            << lock << " is not held by who changes this: " << before[lock]
            << "\nto: " << after[lock];
      }
      before = std::move(after);
      held.clear();
      std::ranges::copy_if(locks, std::inserter(held, held.end()), IsHeld);
    };
    const Killing run = RunObserved(command, look);
    look();
    EXPECT_EQ(run.outcome.exit_code, exit_code) << run.outcome;
    EXPECT_EQ(changed, locks);
    // A child of DEL's may need a moment.
    EXPECT_TRUE(Soon([&] { return std::ranges::none_of(locks, IsHeld); })) << "is not given back";
  }

  [[nodiscard]] Command CheckCommand() {
    json config = kConfig;
    config["prevResult"] = result_;
    return PluginCommand("CHECK", config.dump());
  }
  static inline const json kConfig = Publish({Port(8080, 80)});
  static inline const std::string kOwn = "alloc-1@eth0.json";
  static inline const std::string kOtherRecord = "other@eth0.json";
  json result_;
};

TEST_F(Locks, AreHeldByTheFirstAdd) {
  Detach(kConfig);
  ExpectHeldBy(PluginCommand("ADD", kConfig.dump()), {"rules", "leases", kOwn});
}

TEST_F(Locks, AreHeldByARepeatedAdd) {
  ExpectHeldBy(PluginCommand("ADD", kConfig.dump()), {"rules", kOwn});
}

TEST_F(Locks, AreHeldByAnAddThatTakesAPortOfAStaleOwner) {
  Node& gone = AddContainer("other");
  const json config = Publish({Port(9090, 80)});
  Attach(config, As("other", gone));
  KillContainer(gone);
  ExpectHeldBy(PluginCommand("ADD", config.dump(), As("new", AddContainer("new"))),
               {"rules", "leases", kOtherRecord, "new@eth0.json"});
}

TEST_F(Locks, AreHeldByAnAddWhoseResultCannotBeWritten) {
  Detach(kConfig);
  Command add = PluginCommand("ADD", kConfig.dump());
  add.in_child = [] { ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO); };
  ExpectHeldBy(add, {"rules", "leases", kOwn}, 1);
}

TEST_F(Locks, AreHeldByADel) {
  ExpectHeldBy(PluginCommand("DEL", kConfig.dump()), {"rules", "leases", kOwn});
}

TEST_F(Locks, AreHeldByADelWithoutARecord) {
  fs::remove(RecordOf("alloc-1"));
  ExpectHeldBy(PluginCommand("DEL", kConfig.dump()), {"rules", "leases"});
}

TEST_F(Locks, AreHeldByACheckThatRepairsTheRules) {
  host().Must(Words("nft flush chain inet nomad-bridge forward"));
  ExpectHeldBy(CheckCommand(), {"rules"});
}

TEST_F(Locks, AreHeldByACheckThatRepairs) {
  host().Must(Words("nft flush ruleset"));
  fs::remove(RecordOf("alloc-1"));
  fs::remove(Cat(kLeases, '/', AddressOf(result_)));
  ExpectHeldBy(CheckCommand(), {"rules", "leases", kOwn});
}

TEST_F(Locks, AreHeldByAReconcileThatRepairsTheRules) {
  host().Must(Words("nft flush chain inet nomad-bridge forward"));
  ExpectHeldBy(Line({"reconcile"}), {"rules"});
}

TEST_F(Locks, AreHeldByAReconcileThatRepairs) {
  fs::remove(Cat(kLeases, '/', AddressOf(result_)));
  host().Must(Words("nft flush ruleset"));
  ExpectHeldBy(Line({"reconcile"}), {"rules", "leases"});
}

TEST_F(Locks, AreHeldByAnApplyOfPolicies) {
  Detach(kConfig);
  Attach(kConfig, As("alloc-1", container(), NomadArgs("web", "alloc-1")));
  fs::create_directory("/run/policy.d");
  const json policy = {{"name", "closed"},
                       {"to", {{"namespace", "*"}}},
                       {"allow", {{{"from", {"same-namespace"}}}}}};
  ReplaceFile("/run/policy.d/closed.json", json({{"version", 1}, {"policies", {policy}}}).dump());
  ExpectHeldBy(Line({"policy", "apply", "/run/policy.d"}), {"rules", kOwn});
}

TEST_F(Locks, AreHeldByAGc) {
  ExpectHeldBy(PluginCommand("GC", WithValid({}).dump(), kNoContainer), {"rules", "leases", kOwn});
}

// Other programs know nothing of it.
TEST_F(Locks, DoNotKeepOtherProgramsFromChangingRules) {
  Detach(kConfig);
  const Command add = PluginCommand("ADD", kConfig.dump());
  std::vector<int> under_lock;
  int calls = 0;
  static_cast<void>(RunObserved(add, [&] {
    ++calls;
    if (IsHeld("rules")) {
      under_lock.push_back(calls);
    }
  }));
  for (const int nth : under_lock) {
    SCOPED_TRACE(Cat("at call ", nth));
    Detach(kConfig);
    const Killing disturbed =
        RunDisturbedAt(add, nth, [&] { host().Must(Words(Cat("nft add table ip other", nth))); });
    ASSERT_EQ(disturbed.outcome.exit_code, 0) << disturbed.outcome;
  }
  EXPECT_THAT(under_lock, Not(IsEmpty()));
}

TEST_F(Locks, KeepAReconcileFromRepairingALockedAttachment) {
  const UniqueFd own = TryTake(kOwn);
  ASSERT_TRUE(own);
  host().Must({"ip", "link", "set", OnlyPort(), "down"});
  EXPECT_THAT(RunLine("reconcile").out, HasSubstr("1 attachment"));
  EXPECT_THAT(LinkOn(host(), OnlyPort())["flags"].dump(), Not(HasSubstr("\"UP\"")));
}

// What is stale is locked while it is taken back: who looks for it then would find nothing.
TEST_F(Locks, AreWaitedForByTheNextAddToAFullPool) {
  const json config = Config({{"ipam", {{"subnet", "10.9.0.0/29"}, {"rangeEnd", "10.9.0.3"}}}});
  AttachDead("other", config);
  AttachDead("another", config);
  const Variables second = As("second", AddContainer("second"));
  std::optional<Process> waits;
  const Killing first =
      RunObserved(PluginCommand("ADD", config.dump(), As("first", AddContainer("first"))), [&] {
        if (!waits && (IsHeld(kOtherRecord) || IsHeld("another@eth0.json"))) {
          waits.emplace(StartPlugin("ADD", config, second));
          EXPECT_TRUE(Soon([] { return IsWaitedFor(kLockFile); }));
        }
      });
  EXPECT_EQ(first.outcome.exit_code, 0) << first.outcome;
  ASSERT_TRUE(waits);
  EXPECT_THAT(waits->Wait(), Exits(0));
}

}  // namespace
}  // namespace nomad_bridge::test
