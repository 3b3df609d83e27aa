// kill -9 in a command, at one system call after the other: the next ADD, DEL or GC leaves a
// working attachment, or exactly nothing.
#include "tests/plugin/repair_sweep.h"

namespace nomad_bridge::test {
namespace {

class KillingWorld : public SweepWorld {
 protected:
  // Runs `victim` again and again, killed at one point of the sweep after the other, and calls
  // `recover` each time. Ends with a run that was not killed.
  void Sweep(const Victim& victim, const std::function<void()>& recover) {
    constexpr int kFewest = 15;  // any command of ours makes more calls that can be seen
    for (int nth = FirstPoint(); !HasFailure(); nth += PointStep()) {
      victim.prepare();
      const Killing killing = 
          RunKilledAt(PluginCommand(victim.verb, victim.config.dump()), nth);
      if (!killing.killed) {
        EXPECT_EQ(killing.outcome.exit_code, 0) << killing.outcome;
        EXPECT_GT(killing.calls, kFewest);
        return;
      }
      SCOPED_TRACE(Cat("killed at call ", nth));
      recover();
    }
  }

  // Servers in the first container, which stay through every ADD and DEL of it.
  void ServeAll() {
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "page");
    Serve(container(), Protocol::kUdp, {"0.0.0.0"}, 53, "name");
  }

  void ExpectServes(const Outcome& add) {
    ASSERT_EQ(add.exit_code, 0) << add;
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
    EXPECT_EQ(UdpText(outside(), kHostIp4, 8053), "name");
    EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{AddressOf(add.json), "alloc-1"}}));
  }
};

// ---- a command on a machine and in a container that have seen one before

struct Killed : Named {
  std::string verb;
  json earlier;  // what an ADD attached before; null: nothing
  json config;   // ports 8080/tcp and 8053/udp
};

std::vector<Killed> Commands() {
  const json web = Publish({Port(8080, 80), Port(8053, 53, "udp")});
  // Another address and other ports, so that both may be left over.
  const json earlier = Publish({Port(7080, 80), Port(7053, 53, "udp")},
                               Config(R"({"runtimeConfig": {"ips": ["172.26.64.50"]}})"));
  json later = web;
  later["runtimeConfig"]["ips"] = {"172.26.64.60"};
  return {
      {"Add", "ADD", nullptr, web}, {"Del", "DEL", web, web}, {"Takeover", "ADD", earlier, later}};
}

class KilledCommand : public KillingWorld, public ::testing::WithParamInterface<Killed> {
 protected:
  void SetUp() override {
    UseOnce(killed_.config);
    before_ = TakeBriefSnapshot();
  }

  void SweepAndRecover(const std::function<void()>& recover) {
    const auto prepare = [this] {
      if (!killed_.earlier.is_null()) {
        AttachForRun(killed_.earlier);
      }
    };
    Sweep({killed_.verb, killed_.config, prepare}, [&] {
      recover();
      ExpectNothingSince(before_);
    });
  }

  const Killed killed_ = GetParam();
  Snapshot before_;
};

TEST_P(KilledCommand, IsRepairedByTheNextAdd) {
  ServeAll();
  SweepAndRecover([&] {
    const Outcome add = RunPlugin("ADD", killed_.config);
    ExpectServes(add);
    if (const json asked = At(killed_.config, "/runtimeConfig/ips/0"); !asked.is_null()) {
      EXPECT_EQ(asked, AddressOf(add.json));
    }
    EXPECT_EQ(TcpText(outside(), kHostIp4, 7080), "") << "the old port still leads there";
    Detach(killed_.config);
  });
}

TEST_P(KilledCommand, LeavesOnlyWhatDelRemoves) {
  SweepAndRecover([&] { Detach(killed_.config); });
  if (killed_.verb == "DEL") {
    ExpectNothingSince(before_);
  }
}

TEST_P(KilledCommand, LeavesOnlyWhatAGcThatDoesNotListItRemoves) {
  SweepAndRecover([&] { MustRun("GC", WithValid({})); });
}

INSTANTIATE_TEST_SUITE_P(Every, KilledCommand, ::testing::ValuesIn(Commands()), kNameOf);

// ---- ADD where the pool is full

class KilledAdd : public KillingWorld {};

// Nomad's agent dies with the plugin, and the allocation before it is back: no DEL ever comes.
TEST_F(KilledAdd, ReleasesItsAddressInAFullPoolOnceItsNamespaceHasEnded) {
  const json plain = Config({{"ipam", {{"subnet", "10.9.0.0/30"}}}});
  const json config = Publish({Port(8080, 80)}, plain);
  const Variables other = As("other", AddContainer("other"));
  UseOnce(Publish({Port(8080, 80), Port(8053, 53, "udp")}));
  int containers = 0;
  for (int nth = FirstPoint(); !HasFailure(); nth += PointStep()) {
    Node& doomed = AddContainer(Cat("doomed", ++containers));
    const Killing killing = 
        RunKilledAt(PluginCommand("ADD", config.dump(), As("doomed", doomed)), nth);
    SCOPED_TRACE(Cat("killed at call ", nth));
    KillContainer(doomed);
    Outcome add;
    // The kernel takes its time to end a namespace; until then its attachment lives.
    EXPECT_TRUE(Soon([&] { return (add = RunPlugin("ADD", plain, other)).exit_code == 0; })) << add;
    EXPECT_EQ(AddressOf(add.json), "10.9.0.2");
    EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{"10.9.0.2", "other"}}));
    Detach(plain, other);
    if (!killing.killed) {
      break;
    }
  }
}

// ---- the very first ADD of a machine, which makes the bridge, the table and the directories

class KilledFirstAdd : public KillingWorld {
 protected:
  void SetUp() override {
    UseOnce(victim_.config);
    used_ = TakeBriefSnapshot();
  }

  // As if no ADD had ever been here.
  void MakeBare() {
    static_cast<void>(host().Run({"ip", "link", "delete", "nomad"}));
    static_cast<void>(container().Run({"ip", "link", "delete", "eth0"}));
    host().Must({"nft", "flush", "ruleset"});
    host().SetSysctl("net/ipv4/ip_forward", "0");
    fs::remove_all("/run/nomad-bridge");
    fs::remove_all(kLeases);
  }

  const Victim victim_{.verb = "ADD",
                       .config = Publish({Port(8080, 80), Port(8053, 53, "udp")}),
                       .prepare = [this] { MakeBare(); }};
  Snapshot used_;
};

TEST_F(KilledFirstAdd, IsRepairedByTheNextAdd) {
  ServeAll();
  Sweep(victim_, [&] {
    ExpectServes(RunPlugin("ADD", victim_.config));
    Detach(victim_.config);
    ExpectNothingSince(used_);
  });
}

TEST_F(KilledFirstAdd, IsRemovedByDelAndDoesNotHinderOthers) {
  const Variables other = As("other", AddContainer("other"));
  Sweep(victim_, [&] {
    Detach(victim_.config);
    EXPECT_FALSE(HasInterface(container(), "eth0"));
    EXPECT_FALSE(HasRecord("alloc-1"));
    EXPECT_TRUE(Leases().empty());
    // What is shared may be half made; the next ADD completes it.
    UseOnce(victim_.config, other);
    ExpectNothingSince(used_);
  });
}

}  // namespace
}  // namespace nomad_bridge::test
