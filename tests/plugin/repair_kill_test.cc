// kill -9 in a command, at one system call after the other: the next command leaves a working
// attachment, or exactly nothing.
#include "tests/plugin/repair_sweep.h"

namespace nomad_bridge::test {
namespace {

class KilledCommand;

struct Killed : Named {
  void (KilledCommand::*once)();      // leaves what stays by design, and sets before_
  Command (KilledCommand::*begin)();  // prepares a run, and returns its command
  void (KilledCommand::*next)();      // repairs, and says what must hold
  int min_calls = 15;                 // that others can see
};

const json kWeb = Publish({Port(8080, 80), Port(8053, 53, "udp")});
const json kOfFullPool = Config({{"ipam", {{"subnet", "10.9.0.0/30"}}}});

json WithAddress(json config, const char* address) {
  config["runtimeConfig"]["ips"] = {address};
  return config;
}

class KilledCommand : public SweepWorld, public ::testing::WithParamInterface<Killed> {
 public:
  // ---- once

  // The servers stay through every ADD and DEL of the container.
  void UseWeb() {
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "page");
    Serve(container(), Protocol::kUdp, {"0.0.0.0"}, 53, "name");
    UseOnce(kWeb);
    before_ = TakeBriefSnapshot();
  }
  // Two networks, and a neighbour.
  void AttachAll() {
    WarmUp();
    Attach(Publish({Port(8080, 80), Port(8053, 53, "udp")}, DualStack()));
    Attach(kOther, As("other", other_));
    Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
    before_ = TakeHostSnapshot();
  }
  void StartServices() {
    services_ = {&Start("prod", "api"), &Start("prod", "lb"), &Start("dev", "test")};
  }

  // ---- begin

  Command Add() { return PluginCommand("ADD", config_.dump()); }
  Command Del() {
    AttachForRun(kWeb);
    return PluginCommand("DEL", kWeb.dump());
  }
  // Another address and other ports, so that both may be left over.
  Command AddOverAnEarlier() {
    AttachForRun(WithAddress(Publish({Port(7080, 80), Port(7053, 53, "udp")}), "172.26.64.50"));
    config_ = WithAddress(kWeb, "172.26.64.60");
    return Add();
  }
  // It makes the bridge, the table and the directories.
  Command AddOnABareMachine() {
    static_cast<void>(host().Run(Words("ip link delete nomad")));
    static_cast<void>(container().Run(Words("ip link delete eth0")));
    host().Must(Words("nft flush ruleset"));
    host().SetSysctl("net/ipv4/ip_forward", "0");
    fs::remove_all("/run/nomad-bridge");
    fs::remove_all(kLeases);
    return Add();
  }
  Command AddToAFullPool() {
    doomed_ = &AddContainer(Cat("doomed", ++runs_));
    return PluginCommand(
        "ADD", Publish({Port(8080, 80)}, kOfFullPool).dump(), As("doomed", *doomed_));
  }
  Command Reconcile() {
    host().Shell("nft flush ruleset; ip link delete nomad; rm /var/run/cni/nomad/172.26.64.*");
    return Line({"reconcile"});
  }
  Command Gc() {
    AttachDead(Cat("doomed", ++runs_), Publish({Port(9090, 90)}));
    return Line({"gc"});
  }
  Command Apply() {
    json closed = kNamespaces;
    closed["allow"] = json::array();
    PolicyWorld::Apply({kNamespaces});
    WritePolicies({closed});
    return Line({"policy", "apply", kDirectory});
  }

  // ---- next

  void ByTheNextAdd() {
    const Outcome add = RunPlugin("ADD", config_);
    ASSERT_EQ(add.exit_code, 0) << add;
    const std::string address = AddressOf(add.json);
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
    EXPECT_EQ(UdpText(outside(), kHostIp4, 8053), "name");
    EXPECT_EQ(TcpText(outside(), kHostIp4, 7080), "") << "the old port still leads there";
    EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{address, "alloc-1"}}));
    if (const json asked = At(config_, "/runtimeConfig/ips/0"); !asked.is_null()) {
      EXPECT_EQ(asked, address);
    }
    ByDel();
  }
  void ByDel() {
    Detach(config_);
    ExpectNothingSince(before_);
  }
  void ByAGcThatDoesNotListIt() {
    MustRun("GC", WithValid({}));
    ExpectNothingSince(before_);
  }
  // What is shared may be half made; the next ADD completes it.
  void ByDelAndTheAddOfAnother() {
    Detach(config_);
    EXPECT_FALSE(HasInterface(container(), "eth0"));
    EXPECT_FALSE(HasRecord("alloc-1"));
    EXPECT_TRUE(Leases().empty());
    UseOnce(config_, As("other", other_));
    ExpectNothingSince(before_);
  }
  // Nomad's agent dies with the plugin, and the allocation before it is back: no DEL ever comes.
  void ByTheAddOfAnotherOnceItsNamespaceHasEnded() {
    KillContainer(*doomed_);
    const Variables other = As("other", other_);
    Outcome add;
    // The kernel takes its time to end a namespace; until then its attachment lives.
    EXPECT_TRUE(Soon([&] { return (add = RunPlugin("ADD", kOfFullPool, other)).exit_code == 0; }))
        << add;
    EXPECT_EQ(AddressOf(add.json), "10.9.0.2");
    EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{"10.9.0.2", "other"}}));
    Detach(kOfFullPool, other);
  }
  void ByTheNextReconcile() { ByTheNext("reconcile"); }
  void ByTheNextGc() { ByTheNext("gc"); }
  // What follows puts the one or the other set of policies in force, whole.
  void ByReconcile() {
    const auto reaches = [&](std::size_t from, std::size_t to) {
      return Ask(*services_[from], {.to = AddressOfNode(*services_[to]), .port = 80}).has_value();
    };
    EXPECT_THAT(RunLine("reconcile"), Exits(0));
    EXPECT_THAT(RunLine("reconcile -dry-run"), Exits(0));
    EXPECT_FALSE(reaches(2, 0));
    EXPECT_EQ(reaches(0, 1), reaches(1, 0));
  }

 protected:
  void ByTheNext(const std::string& line) {
    EXPECT_THAT(RunLine(line), Exits(0));
    EXPECT_TRUE(Unchanged(before_, TakeHostSnapshot()));
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
    EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "page");
    EXPECT_EQ(TcpText(host(), "127.0.0.1", 8080), "page");
  }

  json config_ = kWeb;
  Node& other_ = AddContainer("other");
  Node* doomed_ = nullptr;
  int runs_ = 0;
  std::vector<Node*> services_;
  Snapshot before_;
};

TEST_P(KilledCommand, IsRepaired) {
  (this->*GetParam().once)();
  const Killing last = KillAtEachPoint([&] { return (this->*GetParam().begin)(); },
                                       [&](const Killing&) { (this->*GetParam().next)(); });
  EXPECT_EQ(last.outcome.exit_code, 0) << last.outcome;
  EXPECT_GT(last.calls, GetParam().min_calls);
}

using K = KilledCommand;
INSTANTIATE_TEST_SUITE_P(
    ,
    KilledCommand,
    ::testing::Values(
        Killed{"AddByAdd", &K::UseWeb, &K::Add, &K::ByTheNextAdd},
        Killed{"AddByDel", &K::UseWeb, &K::Add, &K::ByDel},
        Killed{"AddByGc", &K::UseWeb, &K::Add, &K::ByAGcThatDoesNotListIt},
        Killed{"DelByAdd", &K::UseWeb, &K::Del, &K::ByTheNextAdd},
        Killed{"DelByDel", &K::UseWeb, &K::Del, &K::ByDel},
        Killed{"DelByGc", &K::UseWeb, &K::Del, &K::ByAGcThatDoesNotListIt},
        Killed{"TakeoverByAdd", &K::UseWeb, &K::AddOverAnEarlier, &K::ByTheNextAdd},
        Killed{"TakeoverByDel", &K::UseWeb, &K::AddOverAnEarlier, &K::ByDel},
        Killed{"TakeoverByGc", &K::UseWeb, &K::AddOverAnEarlier, &K::ByAGcThatDoesNotListIt},
        Killed{"FirstAddByAdd", &K::UseWeb, &K::AddOnABareMachine, &K::ByTheNextAdd},
        Killed{"FirstAddByDel", &K::UseWeb, &K::AddOnABareMachine, &K::ByDelAndTheAddOfAnother},
        Killed{"AddToAFullPool",
               &K::UseWeb,
               &K::AddToAFullPool,
               &K::ByTheAddOfAnotherOnceItsNamespaceHasEnded},
        Killed{"Reconcile", &K::AttachAll, &K::Reconcile, &K::ByTheNextReconcile},
        Killed{"Gc", &K::AttachAll, &K::Gc, &K::ByTheNextGc},
        Killed{"PolicyApply", &K::StartServices, &K::Apply, &K::ByReconcile, 50}),
    kNameOf);

// ---- ADD by one of the five names

// The plugins of Nomad's list, and its IPAM plugin as a foreign interface plugin would run it.
constexpr std::array kNames = {"loopback", "bridge", "firewall", "portmap", "host-local"};

class KilledName : public World, public ::testing::WithParamInterface<const char*> {
 protected:
  static Network Ours() {
    json list = Conflist("nomad_builtin_bridge");
    json& plugins = list["plugins"];
    if (GetParam() == std::string("host-local")) {
      plugins = {{{"type", "host-local"}, {"ipam", plugins[1]["ipam"]}}};
    }
    return ByOurs(list);
  }

  // The ADD by the name, after the ADDs of the plugins before it.
  Command Add() {
    json result;
    for (std::size_t i = 0;; ++i) {
      if (network_.list.at("plugins").at(i).at("type") == GetParam()) {
        return EntryCommand("ADD", network_, i, allocation_, result);
      }
      result = MustRunEntry("ADD", network_, i, allocation_, result).json;
    }
  }

  // An ADD of the whole list, traffic, and a DEL that knows the result.
  void ExpectWorks() {
    const Attached attached = MustAdd(network_, allocation_);
    if (network_.list.at("plugins").size() > 1) {
      EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
      EXPECT_EQ(UdpText(outside(), kHostIp4, 8053), "name");
    }
    MustDelFrom(network_, attached);
  }

  const Network network_ = Ours();
  const Attached allocation_ = WithPorts("alloc-1",
                                         container(),
                                         {Port(8080, 80), Port(8053, 53, "udp")},
                                         NomadArgs("billing", "alloc-1"));
};

// As the runtime does then: DEL of the whole list, without a result, and ADD again.
TEST_P(KilledName, LeavesOnlyWhatDelAndAddRepair) {
  Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "page");
  Serve(container(), Protocol::kUdp, {"0.0.0.0"}, 53, "name");
  ExpectWorks();  // leaves behind what is shared
  const Snapshot before = TakeSnapshot();
  const Killing last = KillAtEachPoint([&] { return Add(); },
                                       [&](const Killing&) {
                                         MustDelFrom(network_, allocation_);
                                         EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
                                         ExpectWorks();
                                       });
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
  EXPECT_EQ(last.outcome.exit_code, 0) << last.outcome;
  EXPECT_GT(last.calls, 5);
}

INSTANTIATE_TEST_SUITE_P(Each, KilledName, ::testing::ValuesIn(kNames), kNameOfText);

}  // namespace
}  // namespace nomad_bridge::test
