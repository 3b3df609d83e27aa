// nomad-bridge inspect: an attachment by any of its names, and why its port does not answer.
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
    EXPECT_THAT(RunLine("inspect 8080"), Exits(1, Out(HasSubstr(Cat(text, kArrow))), Err("")));
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
  std::string cause;    // VETH and ADDRESS in both are those of the attachment
};

class InspectAfter : public Inspect, public ::testing::WithParamInterface<Damage> {
 protected:
  [[nodiscard]] std::string Filled(std::string text) const {
    text = std::regex_replace(text, std::regex("VETH"), veth_);
    return std::regex_replace(text, std::regex("ADDRESS"), address_);
  }
};

TEST_P(InspectAfter, BlamesTheDamage) {
  Serve();
  const bool is_inside = GetParam().name.starts_with("Container");
  (is_inside ? container() : host()).Must({"sh", "-e", "-c", Filled(GetParam().command)});
  EXPECT_THAT(Cause(), HasSubstr(Filled(GetParam().cause)));
}

INSTANTIATE_TEST_SUITE_P(
    Every,
    InspectAfter,
    ::testing::ValuesIn(std::vector<Damage>{
        {"Element", "nft flush map inet nomad-bridge port4", "8080"},
        {"ForeignChain",
         "nft 'table inet mine { chain forward { type filter hook forward priority 10; policy "
         "drop; }; }'",
         "chain forward of table inet mine (policy drop) comes after ours and drops"},
        {"ContainerRoute",
         "ip route del default",
         "no default route for IPv4: answers find no way back"},
        {"ContainerAddress", "ip address flush dev eth0", "interface 'eth0' has lost ADDRESS"},
        {"NoPort", "ip link set VETH nomaster", "VETH is no port of bridge 'nomad'"},
        {"VethDown", "ip link set VETH down", "VETH is down"},
        {"BridgeGone", "ip link delete nomad", "bridge 'nomad' is missing"},
    }),
    kNameOf);

// firewalld's zones let us through: firewalld.zone of doctor.
TEST_F(Inspect, BlamesNoChainThatLetsUsThrough) {
  Serve();
  host().Must({"nft", "-f", "-"},
              "table inet firewalld { chain filter_FORWARD { type filter hook forward priority 10; "
              "policy drop\n }\n }");
  EXPECT_EQ(At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis/path"), json::array());
  host().Must(
      {"nft", "-f", "-"},
      "delete table inet firewalld\n"
      "table inet mine { chain forward { type filter hook forward priority 10; policy drop\n"
      "meta mark & 0x1000 == 0x1000 accept\n }\n }");
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_EQ(At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis/path"), json::array());
}

}  // namespace
}  // namespace nomad_bridge::test
