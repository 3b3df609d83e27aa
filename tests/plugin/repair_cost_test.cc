// What a command asks of the kernel and of the disk is the same with one attachment on the node and
// with hundreds: on a quiet node, and after another program has changed a rule.
#include "tests/support/refusal.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr int kMany = 500;

class Cost : public World {
 protected:
  // How often it makes each system call on files and sockets.
  using Calls = std::map<std::string, int>;

  Calls CallsOf(const std::string& verb, const json& config, const Variables& variables) {
    const std::string log = "/run/calls";
    const Command command = PluginCommand(verb, config.dump(), variables);
    // With a child it depends on time how often a DEL looks whether the link is gone, and whether
    // the child of the DEL before has ended.
    EnsureFileGone("/run/nomad-bridge/.deleter");
    const std::vector<std::string> options = {
        "-e", "trace=%network,%file,%desc,clone", "-e", "inject=clone:error=EAGAIN"};
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
  host().Must({"nft", "table ip foreign { chain rules { }; }"});
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

// By policies that are about every namespace, each is another kind, with a chain of its own. The
// first ADD of one adds that, and leaves those of the others alone.
TEST_F(Cost, OfTheFirstOfAKindIsTheSameBesideManyKinds) {
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

// Others' rules at the forward hook are read once, and again when there are more of them.
TEST_F(Cost, OfOthersForwardRulesIsPaidOnce) {
  std::string mine = "add chain inet mine forward { type filter hook forward priority 10; }\n";
  for (int n = 0; n < 3000; ++n) {
    mine += Cat("add rule inet mine forward tcp dport ", 1000 + n, " accept\n");
  }
  host().Must({"nft", "table ip foreign { chain rules { }; }; table inet mine { }"});
  host().Must({"nft", "-f", "-"}, mine);
  const json config = Publish({Port(8080, 80)});
  const json result = Attach(config);
  const auto calls = [&] {
    host().Must(Words("nft add rule ip foreign rules accept"));
    return CallsOf("CHECK", WithResult(config, result), {});
  };
  Calls known = calls();
  host().Must(Words("nft add rule inet mine forward tcp dport 999 accept"));
  Calls changed = calls();

  EXPECT_GT(changed["recvmsg"], known["recvmsg"] + 10);
  EXPECT_EQ(calls(), known);
}

// A GC that releases leases of others opens each a few times, not each for each, and lists the
// records as often for many as for few, also where leases name no interface.
TEST_F(Cost, OfGcGrowsWithTheLeasesItReleases) {
  WarmUp();
  for (const char* const ending : {"\r\neth0", ""}) {
    const auto calls = [&](int leases) {
      for (int n = 1; n <= leases; ++n) {
        std::ofstream(Cat(kLeases, "/172.26.70.", n)) << "gone-" << n << ending;
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
}

// It reads the rules of the reference plugins once, not for each lease that it releases.
TEST_F(Cost, OfGcBesideManyRulesOfTheReferencePlugins) {
  WarmUp();
  const auto calls = [&](int leases) {
    for (int n = 1; n <= leases; ++n) {
      std::ofstream(Cat(kLeases, "/172.26.70.", n)) << "gone-" << n << "\r\neth0";
    }
    return CallsOf("GC", WithValid({}), kNoContainer);
  };
  const auto growth = [&] {
    Calls few = calls(5);
    return calls(20)["recvmsg"] - few["recvmsg"];
  };
  host().Must(
      {"nft", "table ip nat { chain POSTROUTING { type nat hook postrouting priority 100; }; }"});
  const int without = growth();
  std::string rules;
  for (int n = 0; n < 1000; ++n) {
    rules += Cat("add rule ip nat POSTROUTING ip daddr 10.0.", n / 256, '.', n % 256, " accept\n");
  }
  host().Must({"nft", "-f", "-"}, rules);
  EXPECT_EQ(growth(), without);
}

}  // namespace
}  // namespace nomad_bridge::test
