// nomad-bridge inspect: an attachment by any of its names, and why its port does not answer.
#include <csignal>
#include <regex>

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kAllocation = "5f3c1a2b-0000-4000-8000-000000000001";
constexpr const char* kArrow = "      <- why the port does not answer\n";

class Inspect : public CliWorld {
 protected:
  void SetUp() override {
    const json result = Attach(Publish({Port(8080, 80)}),
                               As(kAllocation, container(), NomadArgs("billing", kAllocation)));
    address_ = AddressOf(result);
    veth_ = HostVethOf(result);
  }
  void Serve(const std::string& address = "0.0.0.0") {
    World::Serve(container(), Protocol::kTcp, {address}, 80, "hello");
  }
  // What it blames, by port, which has to be broken.
  [[nodiscard]] std::string Cause() {
    EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
    const json cause = At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis/cause");
    std::string text = cause.is_string() ? cause.get<std::string>() : "";
    EXPECT_THAT(
        RunLine("inspect 8080"),
        Exits(
            1, Out(AllOf(HasSubstr(Cat(text, kArrow)), HasSubstr("             fix: "))), Err("")));
    return text;
  }

  std::string address_;
  std::string veth_;
};

// ---- what it shows

TEST_F(Inspect, ShowsAllOfAnAttachmentThatIsWell) {
  Serve();
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_THAT(Output("inspect 5f3c1a2b"),
              MatchesRegex(Cat("Allocation   ",
                               kAllocation,
                               "  job billing  group api  namespace default  network nomad\n",
                               "Published    tcp 0.0.0.0:8080 -> ",
                               address_,
                               ":80   [0-9]+ connections? now\n",
                               "Address      ",
                               address_,
                               "\n",
                               "Interface    ",
                               veth_,
                               " on nomad <-> eth0 in /run/netns/[a-z0-9]+",
                               "   in [0-9.]+ k?B  out [0-9.]+ k?B  dropped 0\n",
                               "State        ok\n"
                               "Host side    ok\n"
                               "Container    ok\n")));
}

TEST_F(Inspect, CountsConnections) {
  Serve();
  const std::optional<Connection> open =
      Connection::Open(outside(), {.to = kHostIp4, .port = 8080});
  ASSERT_TRUE(open);
  const json diagnosis = At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis");
  EXPECT_EQ(diagnosis.at("connections"), json{1});
  EXPECT_EQ(diagnosis.at("cause"), nullptr);
}

TEST_F(Inspect, TakesEveryNameOfAnAttachment) {
  Serve();
  for (const std::string& word : {std::string(kAllocation),
                                  std::string("billing"),
                                  std::string("bi"),
                                  std::string("api"),
                                  std::string("billing/api"),
                                  std::string("5f"),
                                  std::string("5f3c1a2b-00"),
                                  veth_,
                                  veth_.substr(0, 7),
                                  address_,
                                  std::string("8080")}) {
    EXPECT_THAT(Output(Cat("inspect ", word)), StartsWith(Cat("Allocation   ", kAllocation)))
        << word;
  }
}

TEST_F(Inspect, ShowsEveryNetworkOfAContainer) {
  Attach(kOther, {{"CNI_CONTAINERID", kAllocation}, {"CNI_IFNAME", "eth1"}});
  const json found = RunLine("inspect -json 5f3c").json.at("attachments");
  ASSERT_EQ(found.size(), 2U);
}

TEST_F(Inspect, ListsTheCandidatesOfAnAmbiguousBeginning) {
  const std::string other = "5f3c9999-0000-4000-8000-000000000002";
  Attach(Config(), As(other, AddContainer("other"), NomadArgs("search", other)));
  EXPECT_THAT(RunLine("inspect 5f3c"),
              Exits(1,
                    Out(""),
                    Err(AllOf(StartsWith("nomad-bridge: '5f3c' may be any of these:\nALLOC "),
                              HasSubstr(kAllocation),
                              HasSubstr(other)))));
  EXPECT_THAT(Output("inspect 5f3c9"), HasSubstr("job search"));
  EXPECT_THAT(RunLine("inspect api"), Exits(1, Err(HasSubstr("'api' may be any of these"))));
  EXPECT_THAT(Output("inspect search"), HasSubstr("job search"));
}

TEST_F(Inspect, SaysWhatItCannotFind) {
  for (const char* const word : {"zz", "8081", "10.1.2.3", "vethffff"}) {
    EXPECT_THAT(Run({"inspect", word}),
                Exits(1,
                      Err(Cat("nomad-bridge: nothing here has '",
                              word,
                              "' as its allocation, job, group, interface, address or "
                              "published port\n"))))
        << word;
  }
  EXPECT_EQ(RunLine("inspect 5").exit_code, 2) << "one character";
  EXPECT_EQ(RunLine("inspect").exit_code, 2);
}

TEST_F(Inspect, WithoutRootShowsWhatTheAliasHolds) {
  const Command command = LineWithoutRoot({"inspect", veth_});
  EXPECT_THAT(Execute(command),
              Exits(0, Out(AllOf(HasSubstr("job billing"), HasSubstr("Address      ?\n")))));
}

TEST_F(Inspect, ShowsANamespaceThatIsGone) {
  KillContainer(container());
  EXPECT_THAT(
      RunLine("inspect 5f3c"),
      Exits(1, Out(AllOf(HasSubstr("State        dead\n"), HasSubstr("its namespace is gone")))));
}

// ---- why a port does not answer

TEST_F(Inspect, BlamesThatNobodyListens) {
  EXPECT_EQ(Cause(), "no listener on tcp/80");
}

// Nomad publishes every port for both protocols.
TEST_F(Inspect, AccusesNoServiceThatListensOnOneOfItsProtocols) {
  const std::string id = "9d01c7e4-0000-4000-8000-000000000002";
  Node& both = AddContainer("both");
  Attach(Publish({Port(9090, 80), Port(9090, 80, "udp")}, DualStack({{"name", "both"}})),
         As(id, both, NomadArgs("search", id)));
  EXPECT_THAT(RunLine("inspect 9090"),
              Exits(1,
                    Out(AllOf(HasSubstr(Cat("no listener on tcp/80", kArrow)),
                              HasSubstr("no listener on udp/80\n"),
                              Not(HasSubstr("Note"))))));
  World::Serve(both, Protocol::kTcp, {"::"}, 80, "hello");
  ASSERT_EQ(TcpText(outside(), kHostIp4, 9090), "hello");
  EXPECT_THAT(Output("inspect 9090"),
              AllOf(HasSubstr("Container    ok\n"),
                    HasSubstr("Note         no listener on udp/80, but tcp/80 is answered\n"),
                    Not(HasSubstr("why"))));
  const json diagnosis = At(RunLine("inspect -json 9090").json, "/attachments/0/diagnosis");
  EXPECT_EQ(diagnosis.at("cause"), nullptr);
  EXPECT_EQ(diagnosis.at("container"), json::array());
  EXPECT_EQ(diagnosis.at("notes"), json({"no listener on udp/80, but tcp/80 is answered"}));
}

TEST_F(Inspect, BlamesAListenerOnLocalhostAlone) {
  container().Must({"ip", "link", "set", "lo", "up"});
  Serve("127.0.0.1");
  EXPECT_EQ(Cause(), Cat("the listener on tcp/80 is on 127.0.0.1:80, not on ", address_));
}

struct Damage : Named {
  std::string command;  // run by sh, on the host or in the container
  // VETH, ADDRESS and NETNS in both are those of the attachment.
  std::string cause;
};

class InspectAfter : public Inspect, public ::testing::WithParamInterface<Damage> {
 protected:
  [[nodiscard]] std::string Filled(std::string text) const {
    text = std::regex_replace(text, std::regex("VETH"), veth_);
    return std::regex_replace(text, std::regex("ADDRESS"), address_);
  }

  // As an operator does who reads it: each line that it prints, until it prints none.
  void PasteFixes() {
    constexpr int kMost = 6;
    const std::string binary = Line({}).argv.front();
    const std::string path = Cat("PATH=", binary.substr(0, binary.rfind('/')), ":$PATH; ");
    for (int i = 0; i < kMost; ++i) {
      const json causes = At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis/causes");
      if (causes.empty()) {
        return;
      }
      host().Must({"sh", "-e", "-c", Cat(path, causes.at(0).at("fix").get<std::string>())});
      // A link that was set up has its carrier a moment later.
      EXPECT_TRUE(Soon([&] { return LinkOn(host(), "uplink").at("operstate") == "UP"; }));
    }
    ADD_FAILURE() << Output("inspect 8080");
  }
};

TEST_P(InspectAfter, BlamesTheDamageAndItsFixHeals) {
  Serve();
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  ASSERT_THAT(Output("inspect 8080"), Not(HasSubstr("fix:")));
  const bool is_inside = GetParam().name.starts_with("Container");
  (is_inside ? container() : host()).Must({"sh", "-e", "-c", Filled(GetParam().command)});
  EXPECT_THAT(Cause(), HasSubstr(Filled(GetParam().cause)));
  PasteFixes();
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
}

INSTANTIATE_TEST_SUITE_P(
    Ours,
    InspectAfter,
    ::testing::ValuesIn(std::vector<Damage>{
        {"Element", "nft flush map inet nomad-bridge port4", "8080"},
        {"NoPort", "ip link set VETH nomaster", "VETH is no port of bridge 'nomad'"},
        {"VethDown", "ip link set VETH down", "VETH is down"},
        {"Forwarding", "sysctl -w net.ipv4.ip_forward=0", "net/ipv4/ip_forward is"},
    }),
    kNameOf);

INSTANTIATE_TEST_SUITE_P(
    Rules,
    InspectAfter,
    ::testing::ValuesIn(std::vector<Damage>{
        {"PolicyAfterOurs",
         "nft 'table inet mine { chain forward { type filter hook forward priority 10; policy "
         "drop; }; }'",
         "on the node, chain forward of table inet mine (policy drop) drops what comes for the "
         "port"},
        {"PolicyBeforeOurs",
         "nft 'table inet mine { chain forward { type filter hook forward priority -10; policy "
         "drop; }; }'",
         "on the node, chain forward of table inet mine (policy drop) drops what comes"},
        {"RawTable",
         "nft 'table ip mine { chain early { type filter hook prerouting priority raw; tcp dport "
         "8080 drop; }; }'",
         "on the node, chain early of table ip mine (rule with handle 2) drops what comes for the "
         "port"},
        {"InvalidBeforeConntrack",
         "nft 'table inet mine { chain early { type filter hook prerouting priority raw; ct state "
         "invalid drop; }; }'",
         "chain early of table inet mine (rule with handle 2) drops what comes"},
        {"Set",
         "nft 'table inet mine { set s { type inet_service; flags interval; elements = { "
         "8000-9000 }; }; chain p { type filter hook prerouting priority mangle; tcp dport @s "
         "drop; }; }'",
         "chain p of table inet mine (rule with handle 3) drops what comes"},
        {"VerdictMap",
         "nft 'table inet mine { chain no { reject; }; chain p { type filter hook forward priority "
         "filter; ip daddr . tcp dport vmap { ADDRESS . 80 : goto no }; }; }'",
         "chain no of table inet mine (rule with handle"},
        {"IptablesRaw",
         "iptables -t raw -I PREROUTING -p tcp -m multiport --dports 80,8080 -j DROP",
         "chain PREROUTING of table ip raw (rule with handle"},
        {"IptablesMangle",
         "iptables -t mangle -I PREROUTING -p tcp --dport 8080 -j DROP",
         "chain PREROUTING of table ip mangle (rule with handle"},
        {"IptablesForward",
         "iptables -I FORWARD -d ADDRESS -p tcp --dport 80 -j REJECT",
         "chain FORWARD of table ip filter (rule with handle"},
        {"IptablesState",
         "iptables -I FORWARD -m conntrack --ctstate NEW -j DROP",
         "chain FORWARD of table ip filter (rule with handle"},
        {"IptablesAnswers",
         "iptables -I FORWARD -s ADDRESS -j DROP",
         "drops what the port answers"},
        {"IptablesPostrouting",
         "iptables -t mangle -I POSTROUTING -d ADDRESS -j DROP",
         "chain POSTROUTING of table ip mangle (rule with handle"},
        {"AdminChain",
         "iptables -I NOMAD-ADMIN -p tcp --dport 80 -j DROP",
         "chain NOMAD-ADMIN of table ip filter (rule with handle"},
        {"NoTrack",
         "iptables -t raw -I PREROUTING -p tcp --dport 8080 -j CT --notrack",
         "chain PREROUTING of table ip raw (rule with handle 2) does not track what comes for the "
         "port"},
        {"NoTrackByNft",
         "nft 'table ip mine { chain early { type filter hook prerouting priority raw; tcp dport "
         "8080 notrack; }; }'",
         "does not track what comes for the port"},
        {"Redirect",
         "nft 'table ip mine { chain p { type nat hook prerouting priority -110; tcp dport 8080 "
         "redirect to :9999; }; }'",
         "chain p of table ip mine (rule with handle 2) redirects what comes for the port"},
        {"Dnat",
         "nft 'table ip mine { chain p { type nat hook prerouting priority -110; tcp dport 8080 "
         "dnat to 198.51.100.77:80; }; }'",
         "redirects what comes for the port"},
        {"Bridge",
         "nft 'table bridge mine { chain o { type filter hook output priority 0; ip daddr ADDRESS "
         "drop; }; }'",
         "chain o of table bridge mine (rule with handle 2) drops what comes for the port"},
        {"BridgeAnswers",
         "nft 'table bridge mine { chain p { type filter hook prerouting priority 0; iifname VETH "
         "tcp sport 80 drop; }; }'",
         "chain p of table bridge mine (rule with handle 2) drops what the port answers"},
        {"Netdev",
         "nft 'table netdev mine { chain i { type filter hook ingress device uplink priority 0; "
         "tcp dport 8080 drop; }; }'",
         "chain i of table netdev mine (rule with handle 2) drops what comes for the port"},
        {"ContainerInput",
         "nft 'table inet mine { chain i { type filter hook input priority 0; policy drop; iif lo "
         "accept; }; }'",
         "in the container, chain i of table inet mine (policy drop) drops what comes for the "
         "port"},
        {"ContainerIptables",
         "iptables -A OUTPUT -p tcp --sport 80 -j DROP",
         "in the container, chain OUTPUT of table ip filter (rule with handle"},
    }),
    kNameOf);

INSTANTIATE_TEST_SUITE_P(
    Node,
    InspectAfter,
    ::testing::ValuesIn(std::vector<Damage>{
        {"BlackholeRoute",
         "ip route add blackhole ADDRESS",
         "no packet gets to ADDRESS: the route to ADDRESS/32 is blackhole"},
        {"UnreachableRoute",
         "ip route add unreachable ADDRESS/32",
         "no packet gets to ADDRESS: the route to ADDRESS/32 is unreachable"},
        {"MoreSpecificRoute",
         "ip link add other type veth peer name far; ip link set far up; ip link set other up; ip "
         "route add ADDRESS/32 dev other",
         "the route to ADDRESS leads out of 'other', not of 'nomad'"},
        {"RuleThatProhibits",
         "ip rule add to ADDRESS prohibit priority 100",
         "no packet gets to ADDRESS: ip rule 100 says prohibit"},
        {"RuleToAnotherTable",
         "ip link add other type veth peer name far; ip link set far up; ip link set other up; ip "
         "rule add to ADDRESS table 77 "
         "priority 100; ip route add default dev other table 77",
         "the route to ADDRESS leads out of 'other', not of 'nomad'"},
        {"RuleForAnswers",
         "ip rule add from ADDRESS blackhole priority 100",
         "ip rule 100 says blackhole"},
        {"PermanentNeighbour",
         "ip neigh replace ADDRESS lladdr 02:00:00:00:00:99 dev nomad nud permanent",
         "a permanent neighbour entry on 'nomad' has ADDRESS at 02:00:00:00:00:99"},
        {"UplinkForwarding",
         "sysctl -w net.ipv4.conf.uplink.forwarding=0",
         "net/ipv4/conf/uplink/forwarding is 0"},
        {"BridgeForwarding",
         "sysctl -w net.ipv4.conf.nomad.forwarding=0",
         "net/ipv4/conf/nomad/forwarding is 0"},
        {"UplinkDown", "ip link set uplink down", "'uplink', by which it is reached, is down"},
        {"PortState", "bridge link set dev VETH state 0", "bridge port 'VETH' does not forward"},
        {"SameAddress",
         "ip address add ADDRESS/32 dev lo",
         "this node itself has ADDRESS, on 'lo'"},
    }),
    kNameOf);

INSTANTIATE_TEST_SUITE_P(
    Inside,
    InspectAfter,
    ::testing::ValuesIn(std::vector<Damage>{
        {"ContainerRoute",
         "ip route del default",
         "no default route for IPv4: answers find no way back"},
        {"ContainerAddress", "ip address flush dev eth0", "interface 'eth0' has lost ADDRESS"},
        {"ContainerDown", "ip link set eth0 down", "interface 'eth0' is down"},
        {"ContainerMac",
         "ip link set eth0 down; ip link set eth0 address 02:00:00:00:00:77 up; ip route add "
         "default via 172.26.64.1",
         "02:00:00:00:00:77"},
        {"ContainerGateway",
         "ip neigh replace 172.26.64.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
         "a permanent neighbour entry has the gateway 172.26.64.1 at 02:00:00:00:00:99"},
        {"ContainerServiceStopped",
         "kill -STOP $(ss -H -ltnp 'sport = :80' | sed 's/.*pid=\\([0-9]*\\).*/\\1/')",
         ", which listens on tcp/80, is stopped"},
    }),
    kNameOf);

// ---- what cannot be told by looking

class Traced : public Inspect {
 protected:
  void SetUp() override {
    Inspect::SetUp();
    Serve();
    host().Must({"nft",
                 Cat("table ip mine { chain f { type filter hook forward priority 5; ip daddr ",
                     address_,
                     " meta length 60-64 drop; }; }")});
  }
  [[nodiscard]] bool HasTable() {
    return host().Must({"nft", "list", "tables"}).find("nomad-bridge-trace") != std::string::npos;
  }
  [[nodiscard]] Process StartTrace() {
    Process inspect = Process::Start(Line({"inspect", "8080", "-trace", "-from", kOutsideIp4}));
    EXPECT_TRUE(Soon([&] { return HasTable(); }));
    return inspect;
  }
};

TEST_F(Traced, NamesTheRuleThatEndedAClientsConnection) {
  ASSERT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
  EXPECT_THAT(Output("inspect 8080"), Not(HasSubstr("fix:"))) << "of that length only";
  Process inspect = StartTrace();
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
  EXPECT_THAT(inspect.Wait(),
              Exits(1,
                    Out(AllOf(HasSubstr("\nTrace        inet nomad-bridge, chain localhost_guard, "
                                        "policy: accept\n"),
                              HasSubstr(": goto hostports\n"),
                              EndsWith("ip mine, chain f, rule with handle 2: drop\n"))),
                    Err(HasSubstr("waiting 10 seconds for what 198.51.100.2 sends to port 8080"))));
  EXPECT_FALSE(HasTable());
}

TEST_F(Traced, SendsOneOfItsOwnWithoutAClient) {
  EXPECT_THAT(Output("inspect 8080 -trace"),
              AllOf(HasSubstr("Trace        inet nomad-bridge, chain output, rule with handle "),
                    HasSubstr("\n             answer: inet nomad-bridge, chain ")));
  EXPECT_THAT(RunLine("inspect 8080 -trace -json").json.at("trace").at(0).get<std::string>(),
              StartsWith("inet nomad-bridge, chain output, rule with handle "));
  EXPECT_FALSE(HasTable());
  EXPECT_THAT(Execute(LineWithoutRoot({"inspect", veth_, "-trace"})),
              Exits(2, Err(HasSubstr("inspect -trace needs root"))));
}

// The table is its process's own.
TEST_F(Traced, LeavesNothingWhenItIsKilled) {
  const Process inspect = StartTrace();
  ::kill(inspect.pid(), SIGKILL);
  EXPECT_TRUE(Soon([&] { return !HasTable(); }));
}

// Gone with the bridge: what was attached to it starts anew.
TEST_F(Inspect, BlamesABridgeThatIsGone) {
  Serve();
  host().Must({"ip", "link", "delete", "nomad"});
  EXPECT_THAT(Cause(), HasSubstr("bridge 'nomad' is missing"));
}

TEST_F(Inspect, BlamesNoChainThatLetsUsThrough) {
  Serve();
  host().Must(
      {"nft", "-f", "-"},
      "table inet mine { chain forward { type filter hook forward priority 10; policy drop\n"
      "meta mark & 0x1000 == 0x1000 accept\n }\n }");
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_EQ(At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis/path"), json::array());
}

}  // namespace
}  // namespace nomad_bridge::test
