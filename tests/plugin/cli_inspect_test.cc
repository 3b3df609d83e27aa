// nomad-bridge inspect: an attachment by any of its names, and why its port does not answer.
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/plugin/cli_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kArrow = "      <- why the port does not answer\n";

class Inspect : public CliWorld {
 protected:
  void SetUp() override {
    result_ = Attach(config_, As(kAllocation, container(), NomadArgs("billing", kAllocation)));
    address_ = AddressOf(result_);
    veth_ = HostVethOf(result_);
  }
  void Serve(const std::string& address = "0.0.0.0") {
    World::Serve(container(), Protocol::kTcp, {address}, 80, "hello");
  }
  // What it blames, by port, which has to be broken.
  [[nodiscard]] std::string Cause() {
    EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
    const json cause = At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis/cause");
    std::string text = cause.is_string() ? cause.get<std::string>() : "";
    EXPECT_THAT(RunLine("inspect 8080"),
                Exits(1,
                      Out(AllOf(HasSubstr(Cat(text, kArrow)),
                                ::testing::ContainsRegex("             (fix|advice): "))),
                      Err("")));
    return text;
  }

  const json config_ = Publish({Port(8080, 80)});
  json result_;
  std::string address_;
  std::string veth_;
};

// ---- what it shows

TEST_F(Inspect, ShowsAllOfAHealthyAttachment) {
  Serve();
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_THAT(Output("inspect 5f3c1a2b"),
              MatchesRegex(Cat("Allocation   ",
                               kAllocation,
                               "  job billing  group api  namespace default  network nomad\n",
                               "Published    tcp 0.0.0.0:8080 -> ",
                               address_,
                               ":80(   [0-9]+ connections? now)?\n",
                               "Interface    ",
                               veth_,
                               " on nomad <-> eth0",
                               "   in [0-9.]+ k?B  out [0-9.]+ k?B  dropped 0\n",
                               "State        ok\n"
                               "Way          tcp 8080  uplink ok  prerouting ok  route ok  forward "
                               "ok  nomad ok  container ok  service ok  answer ok\n"
                               "Host side    ok\n"
                               "Container    ok\n"
                               "Result       answers outside and the node\n")));
}

TEST_F(Inspect, CountsConnections) {
  Serve();
  const std::optional<Connection> open =
      Connection::Open(outside(), {.to = kHostIp4, .port = 8080});
  ASSERT_TRUE(open);
  const json diagnosis = At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis");
  EXPECT_EQ(diagnosis.at("connections"), json{1});
  EXPECT_EQ(At(RunLine("inspect -json 8080").json, "/attachments/0/ports/0/connections"), 1);
  EXPECT_THAT(Output("inspect 8080"), HasSubstr(":80   1 connection now\n"));
  EXPECT_EQ(diagnosis.at("cause"), nullptr);
}

TEST_F(Inspect, TakesEveryNameOfAnAttachment) {
  Serve();
  for (const std::string& word : Words(
           Format("{} billing bi api billing/api job=bill*,group=api 5f 5f3c1a2b-00 {} {} {} 8080",
                  kAllocation,
                  veth_,
                  veth_.substr(0, 7),
                  address_))) {
    EXPECT_THAT(Output(Cat("inspect ", word)), StartsWith(Cat("Allocation   ", kAllocation)))
        << word;
  }
}

TEST_F(Inspect, ShowsEveryNetworkOfAContainer) {
  Attach(kOther, {{"CNI_CONTAINERID", kAllocation}, {"CNI_IFNAME", "eth1"}});
  const json found = RunLine("inspect -json 5f3c").json.at("attachments");
  ASSERT_EQ(found.size(), 2U);
}

TEST_F(Inspect, ListsTheCandidatesForAnAmbiguousPrefix) {
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

TEST_F(Inspect, ShowsTheAllocationsOfAJobInShort) {
  Serve();
  const std::string line = Cat("allocation '", kAllocation, "' (billing/api): ok\n");
  EXPECT_EQ(Output("inspect -quiet billing"), line);
  EXPECT_EQ(Output("doctor billing"), line);
  const std::string other = "9d01c7e4-0000-4000-8000-000000000002";
  Attach(Publish({Port(9090, 80)}, Config({{"name", "other"}})),
         As(other, AddContainer("other"), NomadArgs("billing", other)));
  EXPECT_THAT(
      RunLine("inspect billing"),
      Exits(1,
            Out(AllOf(
                HasSubstr(line),
                HasSubstr(Cat(
                    "allocation '", other, "' (billing/api): no listener on tcp/80; advice: "))))));
  EXPECT_EQ(RunLine("inspect -json billing").json.at("attachments").size(), 2U);
}

// A prefix has two characters, a name as many as it has.
TEST_F(Inspect, TakesANameOfOneCharacter) {
  Attach(Config(), As("y", AddContainer("other"), NomadArgs("z", "")));
  for (const char* const word : {"z", "y"}) {
    EXPECT_THAT(Output(Cat("inspect -no-probe ", word)), HasSubstr("job z"));
  }
}

TEST_F(Inspect, NamesAnUnknownWord) {
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

TEST_F(Inspect, ShowsWhatTheAliasHoldsWithoutRoot) {
  const Command command = LineWithoutRoot({"inspect", veth_});
  EXPECT_THAT(Execute(command),
              Exits(2, Out(AllOf(HasSubstr("job billing"), HasSubstr("Address      ?\n")))));
  EXPECT_THAT(
      Execute(LineWithoutRoot({"inspect", "8080"})),
      Exits(2,
            Err(HasSubstr("cannot tell without root whether anything here is called '8080'\n"))));
}

TEST_F(Inspect, SaysThatARecordIsLostUntilCheckMakesItAgain) {
  Serve();
  fs::remove(RecordOf(kAllocation));
  EXPECT_THAT(RunLine("inspect billing"),
              Exits(1,
                    Out(HasSubstr("State        unrecorded\n"
                                  "             advice: CHECK writes it again "))));
  MustCheck(config_, result_, As(kAllocation, container(), NomadArgs("billing", kAllocation)));
  EXPECT_THAT(Output("inspect billing"), HasSubstr("State        ok\n"));
}

TEST_F(Inspect, DoesNotNameAPortsOwnerWhileARecordIsLost) {
  Serve();
  host().Must(Words("rm -r /run/nomad-bridge"));
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_THAT(RunLine("inspect 8080"),
              Exits(2, Out(""), Err(HasSubstr("1 attachment without a readable record"))));
}

// A directory in the way of the lock.
TEST_F(Inspect, ShowsTheRestIfAPartCannotBeRead) {
  Serve();
  host().Shell("rm /run/nomad-bridge/.lock; mkdir /run/nomad-bridge/.lock");
  const std::string unknown =
      "\nHost side    ?\nContainer    ok\nUnknown      cannot open the lock";
  EXPECT_THAT(RunLine("inspect 8080"), Exits(2, Out(HasSubstr(unknown))));
  container().Must(Words("ip route del default"));
  EXPECT_THAT(RunLine("inspect 8080"),
              Exits(1, Out(AllOf(HasSubstr("no default route"), HasSubstr("\nUnknown ")))));
}

TEST_F(Inspect, ShowsAStaleAttachment) {
  KillContainer(container());
  EXPECT_THAT(
      RunLine("inspect 5f3c"),
      Exits(1, Out(AllOf(HasSubstr("State        dead\n"), HasSubstr("its namespace is gone")))));
}

// ---- why a port does not answer

TEST_F(Inspect, BlamesAMissingListener) {
  EXPECT_EQ(Cause(), "no listener on tcp/80");
}

// Nomad publishes every port for both protocols.
TEST_F(Inspect, DoesNotBlameAServiceThatListensOnOneProtocol) {
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
  const json diagnosis = At(json::parse(Output("inspect -json 9090")), "/attachments/0/diagnosis");
  EXPECT_EQ(diagnosis.at("cause"), nullptr);
  EXPECT_EQ(diagnosis.at("container"), json::array());
  EXPECT_EQ(diagnosis.at("notes"), json::array());
}

TEST_F(Inspect, BlamesOneProtocolIfItsServiceListensOnlyOnLocalhost) {
  const std::string id = "9d01c7e4-0000-4000-8000-000000000002";
  Node& both = AddContainer("both");
  Attach(Publish({Port(9090, 80), Port(9090, 80, "udp")}), As(id, both, NomadArgs("search", id)));
  both.Must({"ip", "link", "set", "lo", "up"});
  World::Serve(both, Protocol::kTcp, {"127.0.0.1"}, 80, "hello");
  ASSERT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 9090}));
  const json diagnosis = At(RunLine("inspect -json 9090").json, "/attachments/0/diagnosis");
  EXPECT_THAT(diagnosis.at("container"),
              json::array({"the listener on tcp/80 is on 127.0.0.1:80, not on 172.26.64.3"}));
  EXPECT_EQ(diagnosis.at("notes"), json::array());
}

TEST_F(Inspect, BlamesAListenerThatIsOnlyOnLocalhost) {
  container().Must({"ip", "link", "set", "lo", "up"});
  Serve("127.0.0.1");
  EXPECT_EQ(Cause(), Cat("the listener on tcp/80 is on 127.0.0.1:80, not on ", address_));
}

// ---- what is broken otherwise than by a command (probe_worlds_test.cc has the rest)

TEST_F(Inspect, BlamesAServiceThatAcceptsNothing) {
  UniqueFd service;
  container().Do([&] {
    service = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(80)};
    ASSERT_EQ(::bind(service.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    ASSERT_EQ(::listen(service.get(), 0), 0);
  });
  const auto first = Connection::Open(outside(), {.to = kHostIp4, .port = 8080});
  const auto second = Connection::Open(outside(), {.to = kHostIp4, .port = 8080});
  EXPECT_THAT(Cause(), HasSubstr("accepts no connection on tcp/80: 1 wait, its backlog is 0"));
  EXPECT_THAT(RunLine("inspect 8080"),
              Out(HasSubstr(Cat("fix: nomad alloc restart ", kAllocation, "\n"))));
}

// What is over stays in conntrack for two minutes.
TEST_F(Inspect, DoesNotCountClosedConnections) {
  Serve();
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  ASSERT_THAT(host().Must(Words("conntrack -L -p tcp --dport 8080")), HasSubstr("_WAIT"));
  EXPECT_TRUE(Soon([&] { return Output("inspect 8080").find(" now\n") == std::string::npos; }));
}

TEST_F(Inspect, DoesNotBlameARenamedContainerInterface) {
  Serve();
  container().Shell(
      "gateway=$(ip route show default | cut -d' ' -f3); ip link set eth0 down; "
      "ip link set eth0 name lan0; ip link set lan0 up; "
      "ip route add default via $gateway");
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_THAT(RunLine("inspect 8080"), Exits(0));
  container().Must(Words("ip link set lan0 down"));
  EXPECT_EQ(Cause(), "interface 'lan0' is down");
}

TEST_F(Inspect, QuotesLinkNamesInFixes) {
  container().Shell(R"(ip link set eth0 down; ip link set eth0 name "it's\\a\"b")");
  EXPECT_THAT(RunLine("inspect 8080").out, HasSubstr("ip link set 'it'\\''s\\a\"b' up\n"));
}

// docs/troubleshooting.md: "A port published in an allocation's second network does not answer"
TEST_F(Inspect, BlamesAnswersThatLeaveByAnotherNetwork) {
  Serve();
  Attach(Publish({Port(9090, 80)}, kOther),
         {{"CNI_CONTAINERID", kAllocation}, {"CNI_IFNAME", "eth1"}});
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_EQ(RunLine("inspect 8080").exit_code, 0) << "its network has the route that is used";
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 9090}));
  const Outcome outcome = RunLine("inspect -json 9090");
  EXPECT_EQ(outcome.exit_code, 1);
  const json diagnosis = At(outcome.json, "/attachments/0/diagnosis");
  EXPECT_EQ(diagnosis.at("cause"),
            "its answers from 10.8.0.2 leave by 'eth0', and sourceCheck of network 'nomad' "
            "drops them");
  host().Shell(At(diagnosis, "/causes/0/fix").get<std::string>());
  EXPECT_EQ(TcpText(outside(), kHostIp4, 9090), "hello");
  EXPECT_THAT(Output("inspect 9090"), Not(HasSubstr("fix:")));
}

TEST_F(Inspect, NamesNoCauseIfNoConnectionIsInQuestion) {
  const std::string id = "9d01c7e4-0000-4000-8000-000000000002";
  Attach(Config(), As(id, AddContainer("batch"), NomadArgs("batch", id)));
  const std::string wrong = "'nomad' is down";
  host().Must(Words("ip link set nomad down"));
  const json diagnosis = At(RunLine("inspect -json batch").json, "/attachments/0/diagnosis");
  EXPECT_EQ(diagnosis.at("cause"), nullptr);
  EXPECT_THAT(At(diagnosis, "/causes/0/what").get<std::string>(), HasSubstr(wrong));
  EXPECT_EQ(At(diagnosis, "/causes/0/section"), "host");
  EXPECT_EQ(At(diagnosis, "/causes/0/isCause"), false);
  EXPECT_THAT(RunLine("inspect -quiet batch"), Exits(1, Out(HasSubstr(wrong))));

  const std::string asked = Cat("batch -no-probe -from ", kOutsideIp4);
  EXPECT_THAT(At(RunLine(Cat("inspect -json ", asked)).json, "/attachments/0/diagnosis/cause")
                  .get<std::string>(),
              HasSubstr(wrong));
  EXPECT_THAT(RunLine(Cat("inspect ", asked)), Out(HasSubstr("<- why there is no answer\n")));
}

// Both as they were printed before either was pasted.
TEST_F(Inspect, GivesTwoNetworksFixesThatDoNotCollide) {
  Serve();
  const json third =
      Config({{"name", "third"}, {"bridge", "br-third"}, {"ipam", {{"subnet", "10.9.0.0/24"}}}});
  Attach(Publish({Port(9090, 80)}, kOther),
         {{"CNI_CONTAINERID", kAllocation}, {"CNI_IFNAME", "eth1"}});
  Attach(Publish({Port(9091, 80)}, third),
         {{"CNI_CONTAINERID", kAllocation}, {"CNI_IFNAME", "eth2"}});
  std::vector<std::string> fixes;
  for (const char* const line : {"inspect -json 9090", "inspect -json 9091"}) {
    fixes.push_back(At(RunLine(line).json, "/attachments/0/diagnosis/causes/0/fix"));
  }
  for (const std::string& fix : fixes) {
    host().Shell(fix);
  }
  EXPECT_EQ(TcpText(outside(), kHostIp4, 9090), "hello");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 9091), "hello");
}

// A proxy beside the task takes what comes for its port.
TEST_F(Inspect, AcceptsARedirectInsideTheContainer) {
  World::Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 20000, "proxy");
  const auto expect_well = [&](const char* rule) {
    container().Must({"sh", "-c", rule});
    ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "proxy") << rule;
    EXPECT_THAT(Output("inspect 8080"), HasSubstr("Container    ok\nResult       answers outside"))
        << rule;
    container().Must({"nft", "flush", "ruleset"});
  };
  const char* const nft =
      "nft 'table inet mine { chain p { type nat hook prerouting priority dstnat; meta l4proto tcp "
      "redirect to :20000; }; }'";
  const char* const iptables = "iptables -t nat -A PREROUTING -p tcp -j REDIRECT --to-ports 20000";
  expect_well(nft);
  expect_well(iptables);
  Serve();
  expect_well(nft);
  expect_well(iptables);
}

// What is lost is for what the allocation itself sends to its port, or another attachment's.
TEST_F(Inspect, MarksOnlyWhatConcernsThePort) {
  Serve();
  Attach(DualStack(), As("both", AddContainer("both")));
  ASSERT_EQ(RunLine("inspect 8080").exit_code, 0);
  const auto expect_unmarked = [&](const std::string& damage, const std::string& says) {
    host().Shell(damage);
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "hello") << damage;
    EXPECT_THAT(RunLine("inspect 8080"),
                Exits(1, Out(AllOf(HasSubstr(says), Not(HasSubstr("why the port"))))))
        << damage;
    EXPECT_EQ(RunLine("reconcile").exit_code, 0);
  };
  expect_unmarked("iptables -F CNI-FORWARD", "is missing in table ip filter\n");
  expect_unmarked("iptables -P FORWARD DROP; iptables -D CNI-FORWARD 1",
                  "the jump from CNI-FORWARD to NOMAD-ADMIN is missing");
  host().Shell("ip6tables -F CNI-FORWARD");
  EXPECT_EQ(RunLine("inspect 8080").exit_code, 0);
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err(HasSubstr("is missing in table ip6 filter\n"))));
  expect_unmarked("nft flush set bridge nomad-bridge source6", "in source6 of");
}

// What they do only their own programs know.
TEST_F(Inspect, BlamesAFilterOfTcWhereNothingElseIsSeen) {
  Serve();
  const std::string drop =
      " protocol ip prio 5 bpf bytecode '1,6 0 0 2,' direct-action";  // TC_ACT_SHOT
  for (const std::string& where :
       {std::string("uplink ingress"), std::string("nomad egress"), Cat(veth_, " ingress")}) {
    const std::string link = where.substr(0, where.find(' '));
    host().Shell(Format("tc qdisc add dev {} clsact || true", link));
    host().Shell(Cat("tc filter add dev ", where, drop));
    EXPECT_EQ(Cause(), Format("a filter of tc on '{}' may drop it", link));
    host().Shell(Cat("tc filter del dev ", where, " prio 5"));
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  }
}

}  // namespace
}  // namespace nomad_bridge::test
