// doctor -probe: whether each container reaches the name servers of its own resolv.conf.
#include "tests/plugin/policy_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class NameServers : public PolicyWorld {
 protected:
  void SetUp() override {
    host().Must(Words(Cat("ip route replace default via ", kOutsideIp4, " dev uplink")));
    host().Must(Words(Cat("ip -6 route replace default via ", kOutsideIp6, " dev uplink")));
  }

  // The newest process in the container: its root has this resolv.conf.
  void RunTask(const Node& node, const std::string& resolv_conf) {
    const std::string etc = Cat("/run/etc-", node.name());
    fs::create_directories(etc);
    ReplaceFile(Cat(etc, "/resolv.conf"), resolv_conf);
    tasks_.push_back(
        Process::Start({.argv = {"nsenter",
                                 Cat("--net=", node.path()),
                                 "unshare",
                                 "-m",
                                 "sh",
                                 "-c",
                                 Format("mount --bind {} /etc; exec sleep 600", etc)}}));
    const std::string comm = Format("/proc/{}/comm", tasks_.back().pid());
    EXPECT_TRUE(Soon([&] { return FindFile(comm).value_or("") == "sleep\n"; }));
  }
  void Start(const std::string& job, const std::string& resolv_conf) {
    RunTask(PolicyWorld::Start("prod", job), resolv_conf);
  }
  [[nodiscard]] Outcome Probe() { return RunLine("doctor dns.probe"); }
  void ExpectReached(int containers) {
    EXPECT_THAT(
        Probe(),
        Exits(0,
              Out(HasSubstr(Format("ok    dns.probe             {} {} with name servers that "
                                   "are reached",
                                   containers,
                                   containers == 1 ? "container" : "containers")))));
  }

  // What the test's own servers would have.
  const std::string resolv_conf_ = [] {
    std::ofstream("/run/resolv.conf") << "search example\n";
    return "/run/resolv.conf";
  }();
  Mounted resolv_{{"--bind", resolv_conf_}, "/etc/resolv.conf"};
  std::vector<Process> tasks_;
};

TEST_F(NameServers, AreReachedBeyondTheNode) {
  Start("web", Cat("nameserver 203.0.113.53\nnameserver ", kOutsideIp6, "\n"));
  PolicyWorld::Start("prod", "silent");
  ExpectReached(1);
  EXPECT_THAT(RunLine("doctor"), Out(Not(HasSubstr("dns.probe"))));
  host().Nft("table inet mine { chain f { type filter hook forward priority 10; policy drop; }; }");
  EXPECT_THAT(Probe(),
              Exits(1,
                    Out(AllOf(HasSubstr("FAIL  dns.probe"),
                              HasSubstr("name server 203.0.113.53 is not reached: "),
                              HasSubstr("chain f of table inet mine (policy drop)")))));
}

TEST_F(NameServers, MayBeAStubThatNoContainerReaches) {
  Start("web", "nameserver 127.0.0.53\n");
  Start("api", "nameserver 127.0.0.53\noptions edns0\n");
  const Outcome outcome = Probe();
  EXPECT_THAT(outcome,
              Exits(1,
                    Out(AllOf(HasSubstr("name server 127.0.0.53 is not reached: "),
                              HasSubstr("no listener on udp/53 (and 1 more)"),
                              HasSubstr("advice: name a resolver that it reaches")))));
  EXPECT_THAT(outcome.out, HasSubstr("1 failure, 0 warnings")) << "one cause";
}

TEST_F(NameServers, MayBeInTheContainer) {
  const Node& node = PolicyWorld::Start("prod", "web");
  node.Must(Words("ip link set lo up"));
  Serve(node, Protocol::kUdp, {"127.0.0.53"}, 53, "dns");
  RunTask(node, "nameserver 127.0.0.53\n");
  ExpectReached(1);
}

// As Consul's DNS.
TEST_F(NameServers, MayBeOnTheBridge) {
  Start("web", Cat("nameserver ", kBridgeIp4, "\n"));
  EXPECT_THAT(Probe(), Exits(1, Out(HasSubstr("name server 172.26.64.1 is not reached: "))));
  Serve(host(), Protocol::kUdp, {kBridgeIp4}, 53, "dns");
  ExpectReached(1);
  host().Shell("iptables -A INPUT -i nomad -p udp --dport 53 -j DROP");
  EXPECT_THAT(Probe(), Exits(1, Out(HasSubstr("chain INPUT of table ip filter"))));
}

TEST_F(NameServers, ThatOthersReplaceAreAWarning) {
  Start("web", "nameserver 127.0.0.53\nnameserver 203.0.113.53\n");
  EXPECT_THAT(Probe(), Exits(0, Out(HasSubstr("WARN  dns.probe             allocation "))));
}

TEST_F(NameServers, BehindAPolicyAreAWarning) {
  Start("web", "nameserver 203.0.113.53\n");
  Apply({{{"name", "closed"},
          {"from", {{"namespace", "prod"}, {"job", "web"}}},
          {"allow", json::array()}}});
  EXPECT_THAT(Probe(),
              Exits(0, Out(AllOf(HasSubstr("WARN  dns.probe"), HasSubstr("rule closed")))));
}

TEST_F(NameServers, OfAFamilyThatTheContainerLacksAreNamed) {
  Attach(Config({{"name", "v4"}, {"bridge", "v4"}, {"ipam", {{"subnet", "10.9.0.0/24"}}}}),
         As("only4", container()));
  RunTask(container(), "nameserver 2001:db8::53\n");
  EXPECT_THAT(Probe(), Exits(1, Out(HasSubstr("no address of that family"))));
}

}  // namespace
}  // namespace nomad_bridge::test
