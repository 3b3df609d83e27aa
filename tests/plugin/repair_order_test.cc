// What a command does, as other programs see it: before each of its system calls that can change
// something, they are asked what is there.
//
// Order  A crash, or another command, may meet any of these states. So the record comes first and
//        goes last, and says `leaving` before anything goes; a container's link is up only while
//        its rules are there; and an address is given back only when nothing leads to it any more,
//        or its next owner would get what is meant for the last one.
// Locks  What a lock guards changes only while the lock is held. Two commands side by side meet
//        only now and then at the same moment.
#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/text.h"
#include "tests/plugin/cli_world.h"
#include "tests/support/rules_lock.h"

namespace nomad_bridge::test {
namespace {

using Facts = std::vector<std::string>;
using LockNames = std::set<std::string>;

const std::string kOwn = "alloc-1@eth0.json";
const std::string kOtherRecord = "other@eth0.json";
const LockNames kLocks =
    {"rules", "leases", kOwn, kOtherRecord, "another@eth0.json", "neighbour@eth0.json"};

// Both ends go at once, by a child of the command, while we look at one after the other.
const std::string kNoLink = " -veth -veth-in-bridge -veth-up -eth0 -eth0-up -address -route";

// Returns `changes` as one text. The kernel removes the facts of kNoLink at once: they are sorted.
std::string TextOf(Facts changes) {
  const Facts no_link = Words(kNoLink);
  const auto place = [&](const std::string& fact) { return std::ranges::find(no_link, fact); };
  const auto is_of_link = [&](const std::string& fact) { return place(fact) != no_link.end(); };
  for (auto begin = changes.begin(); begin != changes.end();) {
    begin = std::find_if(begin, changes.end(), is_of_link);
    const auto end = std::find_if_not(begin, changes.end(), is_of_link);
    std::sort(begin, end, [&](const std::string& one, const std::string& other) {
      return place(one) < place(other);
    });
    begin = end;
  }
  std::string text;
  for (const std::string& change : changes) {
    text += Cat(' ', change);
  }
  return text;
}

constexpr const char* kLockFile = "/run/nomad-bridge/.lock";

// What is guarded, by the lock that does so: "rules", "leases", or a record's name. Its value
// changes with what is guarded.
using Guarded = std::map<std::string, std::string>;

Guarded FindGuarded() {
  Guarded guarded;
  guarded["rules"] = Execute(Words("nft list table inet nomad-bridge")).out;
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

LockNames Differences(const Guarded& before, const Guarded& after) {
  LockNames different;
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

// Checks that a command holds the lock of what it changes.
class LockWatch {
 public:
  // To be called before each call.
  void Look() {
    Guarded now = FindGuarded();
    for (const std::string& lock : Differences(guarded_, now)) {
      changed_.insert(lock);
      EXPECT_TRUE(held_.contains(lock))
          << lock << " is not held by who changes this: " << guarded_[lock]
          << "\nto: " << now[lock];
    }
    guarded_ = std::move(now);
    held_.clear();
    std::ranges::copy_if(kLocks, std::inserter(held_, held_.end()), IsHeld);
  }
  void ExpectAllGivenBack() {
    // A child of DEL's may need a moment.
    EXPECT_TRUE(Soon([&] { return std::ranges::none_of(kLocks, IsHeld); }));
  }
  [[nodiscard]] const LockNames& changed() const { return changed_; }

 private:
  Guarded guarded_ = FindGuarded();
  LockNames held_;  // when the call began that is over now
  LockNames changed_;
};

class Order : public CliWorld {
 protected:
  static constexpr const char* kPrinted = "/run/printed";
  static constexpr const char* kLogged = "/run/logged";
  static constexpr const char* kReferenceSource = "172.26.79.99";
  static constexpr const char* kStaleFlow =
      " -p udp --src 198.51.100.2 --dst 198.51.100.1 --sport 5000 --dport 8053";

  // With a neighbour, so that what all share is there.
  Order() {
    Attach(Publish({Port(9090, 80)}, DualStack()), neighbour_);
    UseOnce(config_);
  }

  // As an earlier owner of port 8053 leaves it.
  void AddStaleFlow() { host().Must(Words(Cat("conntrack -I --timeout 600", kStaleFlow))); }

  void AddReferenceRule() {
    host().Shell(Cat("iptables -t nat -A POSTROUTING -s ",
                     kReferenceSource,
                     " -j ACCEPT -m comment --comment 'name: \"nomad\" id: \"alloc-1\"'"));
  }

  // What a reboot and an operator take away.
  void BreakAll() {
    host().Must(Words("ip link delete nomad"));
    host().Must(Words("nft flush ruleset"));
    fs::remove_all(kLeases);
    host().SetSysctl("net/ipv4/ip_forward", "0");
  }

  void BreakAllButTheBridge() {
    host().Must(Words("ip address delete 172.26.64.1/20 dev nomad"));
    fs::remove_all(kLeases);
    host().Must(Words("nft flush ruleset"));
    host().Must(Words("tc qdisc delete dev nomad clsact"));
    host().SetSysctl("net/ipv4/conf/nomad/route_localnet", "0");
    AddStaleFlow();
  }

  // What changes while the command runs, in order: "+lease" when it comes, "-lease" when it goes.
  // Expects that the command holds the locks of what it changes, and notes these in changed_.
  std::string Observe(Command command, const std::string& out = kPrinted) {
    command.in_child = [out] {
      Redirect(STDOUT_FILENO, out);
      Redirect(STDERR_FILENO, kLogged);
    };
    Facts changes;
    Facts before = Look();
    LockWatch locks;
    const auto compare = [&] {
      const Facts now = Look();
      AddThoseNotIn(now, before, '-', changes);
      AddThoseNotIn(before, now, '+', changes);
      before = now;
      locks.Look();
    };
    const Killing run = RunObserved(std::move(command), compare);
    compare();
    EXPECT_EQ(run.outcome.exit_code, out == kPrinted ? 0 : 1) << FindFile(kLogged).value_or("");
    locks.ExpectAllGivenBack();
    changed_ = locks.changed();
    EXPECT_FALSE(changed_.contains("neighbour@eth0.json"));
    return TextOf(std::move(changes));
  }

  std::string ObserveAdd() { return Observe(PluginCommand("ADD", config_.dump())); }
  std::string ObserveDel() { return Observe(PluginCommand("DEL", config_.dump())); }

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")}, DualStack());
  const Variables neighbour_ = As("neighbour", AddContainer("neighbour"));
  LockNames changed_;

 private:
  static void Redirect(int fd, const std::string& path) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, fd);
    ::close(file);
  }

  static void AddThoseNotIn(const Facts& others, const Facts& some, char sign, Facts& changes) {
    for (const std::string& fact : some) {
      if (std::ranges::find(others, fact) == others.end()) {
        changes.push_back(sign + fact);
      }
    }
  }

  // What there is of container alloc-1, and of what it shares with others.
  Facts Look() {
    Facts facts;
    const auto add = [&](const std::string& fact, bool is_there) {
      if (is_there) {
        facts.push_back(fact);
      }
    };
    const auto contains = [](const std::string& text, std::string_view part) {
      return text.find(part) != text.npos;
    };
    const std::string record = FindFile(RecordOf("alloc-1")).value_or("");
    for (const char* const phase : {"making", "live", "leaving"}) {
      add(phase, contains(record, Cat('"', phase, '"')));
    }
    const std::map<std::string, std::string> leases = Leases();
    add("lease", std::ranges::any_of(leases, [&](const auto& lease) {
          return contains(lease.second, "alloc-1");
        }));
    for (const json& link : host().Json(Words("ip -j -d address"))) {
      const std::string text = link.dump();
      const bool is_up = contains(text, "\"UP\"");
      if (link.value("ifname", "") == "nomad") {
        add("bridge", true);
        add("bridge-up", is_up);
        add("gateway", contains(text, kBridgeIp4) && contains(text, kBridgeIp6));
      } else if (contains(link.value("ifalias", ""), "alloc-1")) {
        add("veth", true);
        add("veth-in-bridge", link.value("master", "") == "nomad");
        add("veth-up", is_up);
      }
    }
    const std::string inside = LinkOn(container(), "eth0").dump();
    add("eth0", inside != "null");
    add("eth0-up", contains(inside, "\"UP\""));
    add("address", contains(inside, "\"172.26."));
    add("route", contains(container().Must(Words("ip route")), "default"));
    const std::string rules = host().Must(Words("nft list ruleset"));
    add("table", contains(rules, "localhost_guard"));
    add("rules", contains(rules, "8080"));
    add("reference-rule", contains(rules, kReferenceSource));  // nft shows no comment of it
    add("forwarding", host().Sysctl("net/ipv4/ip_forward") == "1");
    add("tc-filter", contains(host().Run(Words("tc filter show dev nomad ingress")).out, "bpf"));
    add("route_localnet", host().Sysctl("net/ipv4/conf/nomad/route_localnet") == "1");
    // Asked for by itself: a list is a walk through the whole machine's table, 10 ms.
    add("stale-flow", host().Run(Words(Cat("conntrack -G", kStaleFlow))).exit_code == 0);
    add("result", FindFile(kPrinted).value_or("") != "");
    add("message", FindFile(kLogged).value_or("") != "");
    return facts;
  }
};

const std::string kAcquire = " +making +lease";
const std::string kBridge = " +bridge +bridge-up +gateway +forwarding";
// The host end gets its alias, by which it is known here, when it is set up.
const std::string kPair = " +eth0";
const std::string kLinkUp = " +veth +veth-in-bridge +veth-up +address +eth0-up +route";
// In force, and only then live.
const std::string kPublish = " +rules -making +live";
const std::string kLeaving = " -live +leaving";
const std::string kLocalhost = " +tc-filter +route_localnet";
const std::string kFlow = " -stale-flow";

TEST_F(Order, IsKeptByTheFirstAdd) {
  Detach(config_, neighbour_);
  BreakAll();
  AddStaleFlow();
  EXPECT_EQ(ObserveAdd(),
            kAcquire + kBridge + kPair + " +table" + kPublish + kLocalhost + kFlow + kLinkUp +
                " +result");
}

TEST_F(Order, IsKeptByALaterAdd) {
  AddStaleFlow();
  EXPECT_EQ(ObserveAdd(), kAcquire + kPair + kPublish + kFlow + kLinkUp + " +result");
}

// It keeps its addresses.
TEST_F(Order, IsKeptByARepeatedAdd) {
  Attach(config_);
  AddStaleFlow();
  EXPECT_EQ(ObserveAdd(),
            kLeaving + kNoLink + " -rules" + kFlow + " -leaving +making" + kPair + kPublish +
                kLinkUp + " +result");
}

// Its earlier one goes while the earlier record still names it.
TEST_F(Order, IsKeptByARepeatedAddWithAnotherAddress) {
  const std::string config = Publish({Port(8080, 80)}).dump();
  MustRun("ADD", json::parse(config));
  EXPECT_EQ(Observe(PluginCommand("ADD", config, {{"CNI_ARGS", "IP=172.26.64.50"}})),
            kLeaving + kNoLink + " -rules -lease -leaving" + kAcquire + kPair + kPublish + kLinkUp +
                " +result");
}

// Its result cannot be written: all is undone.
TEST_F(Order, IsKeptByAFailingAdd) {
  EXPECT_EQ(Observe(PluginCommand("ADD", config_.dump()), "/dev/full"),
            kAcquire + kPair + kPublish + kLinkUp + kLeaving + kNoLink +
                " -rules -lease -leaving +message");
}

TEST_F(Order, IsKeptByDel) {
  Attach(config_);
  AddStaleFlow();
  EXPECT_EQ(ObserveDel(), kLeaving + kNoLink + " -rules" + kFlow + " -lease -leaving");
}

TEST_F(Order, IsKeptByDelWithoutARecord) {
  Attach(config_);
  fs::remove(RecordOf("alloc-1"));
  AddReferenceRule();
  EXPECT_EQ(ObserveDel(), kNoLink + " -rules -reference-rule -lease");
}

TEST_F(Order, IsKeptByDelWithATruncatedRecord) {
  Attach(config_);
  ReplaceFile(RecordOf("alloc-1"), R"({"live")");
  EXPECT_EQ(ObserveDel(), kNoLink + " -rules -lease -live +message");
}

TEST_F(Order, IsKeptByGc) {
  Attach(config_);
  AddStaleFlow();
  EXPECT_EQ(Observe(PluginCommand("GC", WithValid({"neighbour"}, config_).dump(), kNoContainer)),
            kLeaving + kNoLink + " -rules" + kFlow + " -lease -leaving +message");
}

// 127.0.0.1 is routed only where the rules are that keep it from others.
const std::string kRepair =
    kBridge + " +veth-in-bridge +table +rules" + kFlow + kLocalhost + " +lease +message";

TEST_F(Order, IsKeptByCheck) {
  const json add = Attach(config_);
  BreakAll();
  AddStaleFlow();
  EXPECT_EQ(Observe(PluginCommand("CHECK", WithResult(config_, add).dump())), kRepair);
}

TEST_F(Order, IsKeptByReconcile) {
  Attach(config_);
  BreakAll();
  AddStaleFlow();
  EXPECT_EQ(Observe(Line({"reconcile"})), kRepair + " +result");
}

// The same where the bridge is left, which is then not set up anew.
const std::string kRepairOfRules =
    " +gateway +lease +table +rules" + kFlow + kLocalhost + " +message";

TEST_F(Order, IsKeptByCheckOnAnIntactBridge) {
  const json add = Attach(config_);
  BreakAllButTheBridge();
  EXPECT_EQ(Observe(PluginCommand("CHECK", WithResult(config_, add).dump())), kRepairOfRules);
}

TEST_F(Order, IsKeptByReconcileOnAnIntactBridge) {
  Attach(config_);
  BreakAllButTheBridge();
  EXPECT_EQ(Observe(Line({"reconcile"})), kRepairOfRules + " +result");
}

// ---- what changes no fact of the above, or another's

TEST_F(Order, OfAnAddThatTakesAPortOfAStaleOwner) {
  Node& gone = AddContainer("other");
  Attach(config_, As("other", gone));
  KillContainer(gone);
  ObserveAdd();
  EXPECT_THAT(changed_, ElementsAre(kOwn, "leases", kOtherRecord, "rules"));
}

TEST_F(Order, OfACheckThatRepairsTheRules) {
  const json add = Attach(config_);
  host().Must(Words("nft flush chain inet nomad-bridge forward"));
  EXPECT_EQ(Observe(PluginCommand("CHECK", WithResult(config_, add).dump())), " +message");
  EXPECT_THAT(changed_, ElementsAre("rules"));
}

TEST_F(Order, OfAReconcileThatRepairsTheRules) {
  Attach(config_);
  host().Must(Words("nft flush chain inet nomad-bridge forward"));
  EXPECT_EQ(Observe(Line({"reconcile"})), " +message +result");
  EXPECT_THAT(changed_, ElementsAre("rules"));
}

TEST_F(Order, OfACheckWithoutARecord) {
  const json add = Attach(config_);
  host().Must(Words("nft flush ruleset"));
  fs::remove(RecordOf("alloc-1"));
  fs::remove(Cat(kLeases, '/', AddressOf(add)));
  EXPECT_EQ(Observe(PluginCommand("CHECK", WithResult(config_, add).dump())),
            " +live +table +rules +message");
  EXPECT_THAT(changed_, ElementsAre(kOwn, "leases", "rules"));
}

TEST_F(Order, OfAnApplyOfPolicies) {
  Detach(config_, neighbour_);
  Attach(config_, As("alloc-1", container(), NomadArgs("web", "alloc-1")));
  fs::create_directory("/run/policy.d");
  const json policy = {{"name", "closed"},
                       {"to", {{"namespace", "*"}}},
                       {"allow", {{{"from", {"same-namespace"}}}}}};
  ReplaceFile("/run/policy.d/closed.json", json({{"version", 1}, {"policies", {policy}}}).dump());
  Observe(Line({"policy", "apply", "/run/policy.d"}));
  EXPECT_THAT(changed_, ElementsAre(kOwn, "rules"));
}

// ---- what locks keep others from

class Locks : public CliWorld {
 protected:
  Locks() { Attach(kConfig); }

  static inline const json kConfig = Publish({Port(8080, 80)});
};

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
