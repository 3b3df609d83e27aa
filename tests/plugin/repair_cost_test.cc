// What a command asks of the kernel and of the disk is the same with one attachment on the node and
// with hundreds: on a quiet node, and after another program has changed a rule.
#include <limits>

#include <sys/resource.h>

#include "tests/plugin/cli_world.h"
#include "tests/support/growth.h"
#include "tests/support/refusal.h"

namespace nomad_bridge::test {
namespace {

constexpr int kMany = 500;

// In user space and the kernel: how it is divided between the two the kernel only samples, and a
// short run may have no share of one.
double CpuSecondsOfChildren() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Cost : public CliWorld {
 protected:
  // How often it makes each system call on files and sockets.
  using Calls = std::map<std::string, int>;

  Calls CallsOf(const std::string& verb, const json& config, const Variables& variables) {
    const std::string log = "/run/calls";
    const Command command = PluginCommand(verb, config.dump(), variables);
    // With a child it depends on time how often a DEL looks whether the link is gone, and whether
    // the child of the DEL before has ended.
    EnsureFileGone("/run/nomad-bridge/.children");
    std::vector<std::string> options = {"-e", "trace=%network,%file,%desc,clone"};
    if (verb != "GC") {  // it starts other programs
      options.insert(options.end(), {"-e", "inject=clone:error=EAGAIN"});
    }
    EXPECT_THAT(Execute(UnderStrace(command, log, options)), Exits(0));
    Calls calls;
    for (const std::string& line : Lines(FindFile(log, 64 << 20).value())) {
      // The kernel has a write to IPv6's sysctls made again as long as another process holds
      // rtnl_lock. Memory is mapped by the allocator, a sanitizer's not always as often.
      if (line.find("ERESTARTNOINTR") == std::string::npos && !line.starts_with("mmap(")) {
        ++calls[line.substr(0, line.find('('))];
      }
    }
    return calls;
  }

  // How often a command has the node list all of a kind. What is asked in a container's namespace
  // does not count: strace(1) cannot read it. Nor does IPv6's table of local routes, which is a
  // table of its own (IPv4's is kept together with the main one).
  static std::ptrdiff_t DumpsOf(const Command& command, const std::string& request) {
    const std::string log = "/run/calls";
    static_cast<void>(Execute(UnderStrace(command, log, {"-e", "trace=sendto"})));
    return std::ranges::count_if(Lines(FindFile(log, 64 << 20).value()), [&](const auto& line) {
      return line.find(request + ", nlmsg_flags=NLM_F_REQUEST|NLM_F_DUMP") != line.npos &&
             line.find("AF_BRIDGE") == line.npos &&
             (line.find("AF_INET6") == line.npos || line.find("RT_TABLE_LOCAL") == line.npos);
    });
  }

  static std::ptrdiff_t DumpsOfDoctor(const std::string& request) {
    return DumpsOf({.argv = {BinaryUnderTest(), "doctor"}}, request);
  }

  // One attachment of its own comes, is checked and goes. Without IPv6, which may have to be waited
  // for.
  std::map<std::string, Calls> Measure(const std::function<void()>& before_each) {
    std::map<std::string, Calls> calls;
    const json config = Publish({Port(8080, 80), Port(8053, 53, "udp")});
    for (const char* const measured : {"ADD", "CHECK", "DEL"}) {
      json add = Attach(config);
      if (measured == std::string_view("ADD")) {
        Detach(config);
      }
      before_each();
      calls[measured] = CallsOf(measured, WithResult(config, add), {});
      Detach(config);
    }
    return calls;
  }
};

TEST_F(Cost, IsTheSameForTheFirstAndTheFiveHundredth) {
  const auto change_a_rule = [this] { host().Must(Words("nft add rule ip foreign rules accept")); };
  host().Nft("table ip foreign { chain rules { }; }");
  const json config = DualStack();
  Attach(config, As("first", AddContainer("first")));
  const auto quiet = Measure([] {});
  const auto changed = Measure(change_a_rule);

  // Many of one container: namespaces would take the longest to make.
  const Node& other = AddContainer("other");
  for (int n = 1; n < kMany; ++n) {
    Variables variables = As(Cat("other-", n / 50), other);
    variables["CNI_IFNAME"] = Cat("eth", n);
    Attach(Publish({Port(10000 + n, 80)}, config), variables);
  }

  EXPECT_EQ(Measure([] {}), quiet);
  EXPECT_EQ(Measure(change_a_rule), changed);
}

// An ADD on a bridge of ours that has been given an uplink asks whether it still has it.
TEST_F(Cost, IsTheSameForTheFirstAndTheFiftiethBesideAnUplink) {
  const json config = Config();
  const Node& other = AddContainer("other");
  Attach(config, As("first", other));
  host().Must(Words("ip link add card type veth peer name far"));
  host().Must(Words("ip link set card up master nomad"));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  const Calls few = CallsOf("ADD", config, {});
  for (int n = 1; n < 50; ++n) {
    Variables variables = As("other", other);
    variables["CNI_IFNAME"] = Cat("eth", n);
    Attach(config, variables);
  }
  EXPECT_EQ(CallsOf("ADD", config, As("last", AddContainer("last"))), few);
}

// The last attachment behind a bridge, whose interface's elements go unless another one needs them.
TEST_F(Cost, DelCostsTheSameBesideForeignPortsOnItsBridge) {
  const json config = Publish({Port(8080, 80)});
  const auto messages_of_del = [&](int strangers) {
    const json add = Attach(config);
    for (int i = 0; i < strangers; ++i) {
      host().Must(
          Words(Format("ip link add stranger{} master nomad type veth peer name far{}", i, i)));
    }
    Calls calls = CallsOf("DEL", WithResult(config, add), {});
    for (int i = 0; i < strangers; ++i) {
      host().Must(Words(Format("ip link delete stranger{}", i)));
    }
    return calls["sendto"];
  };
  const int alone = messages_of_del(0);
  EXPECT_GT(alone, 0);
  EXPECT_EQ(messages_of_del(20), alone);
}

// Each look at one there costs a walk past those of every namespace in which somebody has looked.
TEST_F(Cost, SettingsOpenNoFileUnderTheNodesProc) {
  Attach(DualStack(), As("first", AddContainer("first")));
  const auto opened_by_add = [&](const json& config) {
    const std::string log = "/run/opens";
    const Command add = PluginCommand("ADD", config.dump(), {});
    EXPECT_THAT(Execute(UnderStrace(add, log, {"-e", "trace=open,openat"})), Exits(0));
    Detach(config);
    return Lines(FindFile(log).value());
  };
  const auto of_host_end = HasSubstr("/disable_ipv6");
  const auto under_nodes = HasSubstr("/proc/sys/net/");
  EXPECT_THAT(opened_by_add(DualStack()), AllOf(Contains(of_host_end), Each(Not(under_nodes))));
  // Without IPv6 there is that one alone to set, for which our own procfs costs more.
  EXPECT_THAT(opened_by_add(Config()), Contains(under_nodes).Times(1));
}

// What is the same for all allocations, doctor asks once: 1,000 dumps of 1,000 links took 47 s.
TEST_F(Cost, DoctorDumpsLinksOnceForAllAttachments) {
  Attach(Publish({Port(8080, 80)}, DualStack()), As("first", AddContainer("first")));
  host().Must(Words("ip address flush dev uplink"));
  const auto of_one = DumpsOfDoctor("RTM_GETLINK");
  EXPECT_GT(of_one, 0);
  for (int n = 1; n < 5; ++n) {
    Attach(Publish({Port(8080 + n, 80)}, DualStack()), As(Cat(n), AddContainer(Cat(n))));
  }
  EXPECT_EQ(DumpsOfDoctor("RTM_GETLINK"), of_one);
}

// 1,000 dumps of the routes of 1,000 containers behind another plugin's bridge took half of a
// metrics.
TEST_F(Cost, DoctorDumpsRoutesOnceForAllForeignLinks) {
  Attach(Publish({Port(8080, 80)}, DualStack()));
  const auto beside_none = DumpsOfDoctor("RTM_GETROUTE");
  EXPECT_GT(beside_none, 0);
  for (int n = 0; n < 5; ++n) {
    host().Must(Words(Format("ip link add stranger{} type veth peer name peer{}", n, n)));
    host().Must(Words(Format("ip address add 10.9.{}.1/24 dev stranger{}", n, n)));
    host().Must(Words(Format("ip link set stranger{} up", n)));
  }
  EXPECT_EQ(DumpsOfDoctor("RTM_GETROUTE"), beside_none);
}

// A router has hundreds of thousands. The first ADD, which makes the bridge, took 1.5 s there.
TEST_F(Cost, AddCheckAndDelListNoRoutes) {
  const json config = Publish({Port(8080, 80), Port(8053, 53, "udp")}, DualStack());
  host().Must(Words("ip link add spare type veth peer name far"));
  host().Must(Words("ip address add 192.0.2.129/25 dev spare"));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(DumpsOf(PluginCommand("ADD", config.dump()), "RTM_GETROUTE"), 0);
    const json result = Attach(config);
    EXPECT_EQ(DumpsOf(PluginCommand("CHECK", WithResult(config, result).dump()), "RTM_GETROUTE"),
              0);
    EXPECT_EQ(DumpsOf(PluginCommand("DEL", config.dump()), "RTM_GETROUTE"), 0);
    EXPECT_THAT(Leased(), IsEmpty()) << "the commands did their work";
  }
  EXPECT_GT(DumpsOfDoctor("RTM_GETROUTE"), 0) << "a dump is seen";
}

// By policies that are about every namespace, each is another kind, with a chain of its own. The
// first ADD of one adds that, and leaves those of the others alone.
TEST_F(Cost, FirstAddOfAKindCostsTheSameBesideManyKinds) {
  EnsureDirectory("/run/policy.d");
  ReplaceFile("/run/policy.d/policies.json", R"({"version": 1, "policies": [
      {"name": "namespaces", "to": {"namespace": "*"},
       "allow": [{"from": ["same-namespace"]}, {"from": ["outside"]}]}]})");
  host().Must({BinaryUnderTest(), "policy", "apply", "/run/policy.d"});
  const Node& others = AddContainer("others");
  const Node& measured = AddContainer("measured");
  int kinds = 0;
  const auto of_new_kind = [&](const Node& node, const std::string& ifname) {
    Variables variables = As(node.name(), node, Cat("NOMAD_NAMESPACE=team", ++kinds));
    variables["CNI_IFNAME"] = ifname;
    return variables;
  };
  const auto calls = [&] {
    Variables variables = of_new_kind(measured, "eth0");
    Calls of_add = CallsOf("ADD", Config(), variables);
    Detach(Config(), variables);
    return of_add;
  };
  Attach(Config(), of_new_kind(others, "eth0"));
  const Calls beside_one = calls();
  for (int n = 1; n < 60; ++n) {
    Attach(Config(), of_new_kind(others, Cat("eth", n)));
  }
  EXPECT_EQ(calls(), beside_one);
}

// A GC that releases leases of others opens each a few times, not each for each, and lists the
// records as often for many as for few.
TEST_F(Cost, GcCostGrowsWithTheReleasedLeases) {
  WarmUp();
  const auto calls = [&](int leases) {
    EnsureDirectory(kLeases);
    for (int n = 1; n <= leases; ++n) {
      std::ofstream(Cat(kLeases, "/172.26.70.", n)) << "gone-" << n << "\r\neth0";
    }
    return CallsOf("GC", WithValid({}), kNoContainer);
  };
  Calls none = calls(0);
  Calls some = calls(5);
  Calls many = calls(40);
  EXPECT_LT(many["openat"] - none["openat"], 12 * (some["openat"] - none["openat"]));
  EXPECT_EQ(many["getdents64"], some["getdents64"]);
  EXPECT_THAT(Leased(), IsEmpty());
}

// Those that stay cost a comparison with those that the runtime lists, not with each of them.
TEST_F(Cost, GcCostIsNotQuadraticInTheKeptLeases) {
  const auto cpu_seconds_of_gc = [&](int leases) {
    std::vector<std::string> listed;
    EnsureDirectory(kLeases);
    for (int n = 0; n < leases; ++n) {
      listed.push_back(Cat("stays-", n));
      std::ofstream(Cat(kLeases, "/172.26.", 65 + n / 250, '.', n % 250))
          << listed.back() << "\r\neth0";
    }
    double lowest = std::numeric_limits<double>::max();
    for (int run = 0; run < 3; ++run) {
      const double before = CpuSecondsOfChildren();
      EXPECT_THAT(RunPlugin("GC", WithValid(listed), kNoContainer), Exits(0));
      lowest = std::min(lowest, CpuSecondsOfChildren() - before);
    }
    return lowest;
  };
  UseOnce(Config());
  const double of_few = cpu_seconds_of_gc(400);
  EXPECT_LT(cpu_seconds_of_gc(8 * 400), kLessThanQuadratic * of_few);
  EXPECT_THAT(Leased(), SizeIs(8 * 400));
}

// ADDs wait for it.
TEST_F(Cost, GcReadsNothingButLeasesUnderTheirLock) {
  WarmUp();
  EnsureDirectory(kLeases);
  for (int n = 1; n < 10; ++n) {
    std::ofstream(Cat(kLeases, "/172.26.70.", n)) << "gone-" << n << "\r\neth0";
  }
  const std::string log = "/run/calls";
  const Command gc = PluginCommand("GC", WithValid({}).dump(), kNoContainer);
  EXPECT_THAT(Execute(UnderStrace(gc, log, {"-y", "-e", "trace=%network,%file,%desc"})), Exits(0));
  int held = 0;
  bool is_held = false;
  for (const std::string& line : Lines(FindFile(log, 64 << 20).value())) {
    const bool is_of_lock = line.find("/nomad/lock>") != std::string::npos;
    if (is_of_lock && line.starts_with("flock(")) {
      is_held = true;
      ++held;
    } else if (is_of_lock && line.starts_with("close(")) {
      is_held = false;
    } else if (is_held) {
      EXPECT_THAT(line, Not(AnyOf(HasSubstr("NETLINK"), HasSubstr("/run/nomad-bridge/"))));
    }
  }
  EXPECT_GT(held, 9);
}

// What a GC looks through for what belongs to a lease it reads once, not for each lease that it
// releases.
struct Looked : Named {
  const char* script;  // makes much of it
};
class GcCost : public Cost, public ::testing::WithParamInterface<Looked> {};

TEST_P(GcCost, GrowsOnlyWithTheLeases) {
  WarmUp();
  const auto calls = [&](int leases) {
    EnsureDirectory(kLeases);
    for (int n = 1; n <= leases; ++n) {
      std::ofstream(Cat(kLeases, "/172.26.70.", n)) << "gone-" << n << "\r\neth0";
    }
    int all = 0;
    for (const auto& [name, count] : CallsOf("GC", WithValid({}), kNoContainer)) {
      all += count;
    }
    return all;
  };
  constexpr int kFew = 5;
  constexpr int kMore = 15;  // leases; what was read for each would cost each a call
  const auto growth = [&] {
    const int few = calls(kFew);
    return calls(kFew + kMore) - few;
  };
  const int without = growth();
  host().Shell(GetParam().script);
  // A call that was interrupted is made again.
  EXPECT_LT(growth() - without, kMore);
}

INSTANTIATE_TEST_SUITE_P(
    Kernel,
    GcCost,
    ::testing::Values(
        Looked{"ManyElements",
               "for n in 1 2 3 4; do "
               "seq -f \"add element inet nomad-bridge alloc4 { 10.0.$n.%g }\" 250; "
               "done | nft -f -"},
        Looked{"ManyRulesOfTheReferencePlugins",
               "iptables-nft -t nat -A POSTROUTING -j RETURN; "
               "seq -f 'add rule ip nat POSTROUTING meta length %g accept' 1000 | nft -f -"},
        Looked{"LegacyTables", "iptables-legacy -t nat -A POSTROUTING -j RETURN"}),
    kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
