// Services that listen, but not where the packets of a client come to.
#include "tests/plugin/cli_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class Listener : public CliWorld {
 protected:
  void SetUp() override {
    Attach(Publish({Port(8080, 80)}, DualStack()),
           As(kAllocation, container(), NomadArgs("billing", kAllocation)));
  }

  // On port 80, once `options` are set on its socket `s`. It answers as test::Server does.
  void Listen(const std::string& options) {
    const std::string program =
        Cat("import socket\ns = socket.socket(socket.AF_INET6)\n",
            options,
            "\ns.bind(('::', 80))\ns.listen(5)\n",
            "while True:\n  c = s.accept()[0]\n  c.sendall(b'hello\\nclient\\n')\n"
            "  c.shutdown(socket.SHUT_WR)\n  c.recv(9)\n  c.close()\n");
    service_.emplace(Process::Start(
        {.argv = {"nsenter", Cat("--net=", container().path()), "python3", "-c", program}}));
    ASSERT_TRUE(Soon([&] { return !container().Must(Words("ss -Hlnt sport = 80")).empty(); }));
  }

  [[nodiscard]] json CauseFrom(const std::string& client) {
    return At(RunLine(Cat("inspect -json 8080 -from ", client)).json,
              "/attachments/0/diagnosis/cause");
  }

  std::optional<Process> service_;
};

TEST_F(Listener, OnlyOnIpv6RefusesIpv4Clients) {
  Listen("s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)");
  ASSERT_TRUE(Soon([&] { return TcpText(outside(), kHostIp6, 8080) == "hello"; }));
  ASSERT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
  EXPECT_EQ(CauseFrom(kOutsideIp4), "the listener on tcp/80 is on [::]:80, not on 172.26.64.2");
  EXPECT_EQ(CauseFrom(kOutsideIp6), nullptr);
  EXPECT_THAT(RunLine("inspect 8080"), Exits(0, Out(HasSubstr("Note"))));
}

TEST_F(Listener, BoundToLoopbackRefusesAll) {
  container().Must(Words("ip link set lo up"));
  Listen("s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'lo')");
  ASSERT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
  EXPECT_THAT(RunLine("inspect 8080"),
              Exits(1, Out(HasSubstr("the listener on tcp/80 takes only what comes by 'lo'"))));
}

TEST_F(Listener, BoundToItsInterfaceIsNoFault) {
  Listen("s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'eth0')");
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_THAT(RunLine("inspect 8080"), Exits(0));
}

// What an allocation asks for, and nobody listens there.
struct Unheard : Named {
  std::string to;
  std::uint16_t port;
  std::string says;
  Protocol protocol = Protocol::kTcp;
  enum Where { kOther, kNode, kItself } where = kOther;
};

class NobodyListens : public CliWorld, public ::testing::WithParamInterface<Unheard> {
 protected:
  void SetUp() override {
    Attach(DualStack(), As(kAllocation, container(), NomadArgs("billing", kAllocation)));
    Attach(Publish({Port(8080, 81)}, DualStack()), As("server", server_));
    Serve(server_, Protocol::kTcp, {"0.0.0.0"}, 80, "page");
    Serve(server_, Protocol::kTcp, {"127.0.0.1"}, 6000, "private");
    Serve(server_, Protocol::kTcp, {"::1"}, 6001, "private");
    Serve(server_, Protocol::kUdp, {"127.0.0.1"}, 6000, "private");
    Serve(host(), Protocol::kUdp, {"127.0.0.53"}, 53, "resolver");
  }
  [[nodiscard]] bool IsAnswered() {
    return test::Ask(container(),
                     {.protocol = GetParam().protocol,
                      .to = GetParam().to,
                      .port = GetParam().port,
                      .patience = std::chrono::milliseconds(700)})
        .has_value();
  }
  [[nodiscard]] json Diagnosis() {
    const std::string to = GetParam().to;
    const bool is_ipv4 = to.find('.') != std::string::npos;
    const std::string line = Format("inspect billing -json -to {}:{}{}",
                                    is_ipv4 ? to : Cat("[", to, "]"),
                                    GetParam().port,
                                    GetParam().protocol == Protocol::kUdp ? "/udp" : "");
    return At(RunLine(line).json, "/attachments/0/diagnosis");
  }

  Node& server_ = AddContainer("server");
};

TEST_P(NobodyListens, IsSaidUntilSomebodyDoes) {
  EXPECT_FALSE(IsAnswered());
  const json said = Diagnosis();
  EXPECT_EQ(said.at("cause"), GetParam().says) << said;
  EXPECT_EQ(At(said, "/ways/0/answered"), false);
  const std::uint16_t served = GetParam().port == 8080 ? 81 : GetParam().port;
  Serve(GetParam().where == Unheard::kNode     ? host()
        : GetParam().where == Unheard::kItself ? container()
                                               : server_,
        GetParam().protocol,
        {GetParam().port == 8080 ? "0.0.0.0" : GetParam().to},
        served,
        "here");
  ASSERT_TRUE(IsAnswered());
  EXPECT_EQ(Diagnosis().at("cause"), nullptr);
}

constexpr const char* kServerIp4 = "172.26.64.3";
constexpr const char* kServerIp6 = "fd00:26::3";

INSTANTIATE_TEST_SUITE_P(
    Every,
    NobodyListens,
    ::testing::ValuesIn(std::vector<Unheard>{
        {"Allocation", kServerIp4, 5433, "in container 'server': no listener on tcp/5433"},
        {"Allocation6", kServerIp6, 5433, "in container 'server': no listener on tcp/5433"},
        {"Loopback",
         kServerIp4,
         6000,
         "in container 'server': the listener on tcp/6000 is on 127.0.0.1:6000, not on "
         "172.26.64.3"},
        {"Loopback6",
         kServerIp6,
         6001,
         "in container 'server': the listener on tcp/6001 is on [::1]:6001, not on fd00:26::3"},
        {"PublishedPort", kHostIp4, 8080, "in container 'server': no listener on tcp/81"},
        {"Udp", kServerIp4, 5353, "in container 'server': no listener on udp/5353", Protocol::kUdp},
        {"Udp6",
         kServerIp6,
         5353,
         "in container 'server': no listener on udp/5353",
         Protocol::kUdp},
        {"UdpLoopback",
         kServerIp4,
         6000,
         "in container 'server': the listener on udp/6000 is on 127.0.0.1:6000, not on "
         "172.26.64.3",
         Protocol::kUdp},
        {"ResolverOfTheNode",
         kBridgeIp4,
         53,
         "on the node: the listener on udp/53 is on 127.0.0.53:53, not on 172.26.64.1",
         Protocol::kUdp,
         Unheard::kNode},
        {"NodeUdp6",
         kBridgeIp6,
         5353,
         "on the node: no listener on udp/5353",
         Protocol::kUdp,
         Unheard::kNode},
        {"ItsOwnResolver",
         "127.0.0.53",
         53,
         Format("in container '{}': no listener on udp/53", kAllocation),
         Protocol::kUdp,
         Unheard::kItself},
        {"ItsOwnLoopback6",
         "::1",
         5433,
         Format("in container '{}': no listener on tcp/5433", kAllocation),
         Protocol::kTcp,
         Unheard::kItself},
        {"ItsOwnAddress",
         "172.26.64.2",
         5433,
         Format("in container '{}': no listener on tcp/5433", kAllocation),
         Protocol::kTcp,
         Unheard::kItself},
        {"NodeTcp6",
         kBridgeIp6,
         4646,
         "on the node: no listener on tcp/4646",
         Protocol::kTcp,
         Unheard::kNode},
    }),
    kNameOf);

// As the runtimes do that have a resolver of their own inside.
TEST_F(Listener, BehindARuleInsideIsFound) {
  container().Nft(
      "table ip dns { chain o { type nat hook output priority -100; ip daddr 127.0.0.11 udp dport "
      "53 dnat to 127.0.0.11:4444; }; }");
  EXPECT_THAT(RunLine("inspect billing -to 127.0.0.11:53/udp"),
              Exits(1, Out(HasSubstr("no listener on udp/4444"))));
  Serve(container(), Protocol::kUdp, {"127.0.0.11"}, 4444, "inside");
  ASSERT_EQ(UdpText(container(), "127.0.0.11", 53), "inside");
  EXPECT_THAT(RunLine("inspect billing -to 127.0.0.11:53/udp"),
              Exits(0, Out(HasSubstr("127.0.0.11 is the allocation's own address"))));
}

// br_netfilter lets the bridge take the packet back to the port by which it came.
TEST_F(Listener, IsNotReachedByItsOwnAllocationWithoutHairpinMode) {
  Serve(container(), Protocol::kTcp, {"::"}, 80, "hello");
  SetBridgeNf("1");
  ASSERT_EQ(TcpText(container(), kHostIp4, 8080), "hello");
  host().Must({"bridge", "link", "set", "dev", OnlyPort(), "hairpin", "off"});
  const std::vector<std::pair<std::string, std::string>> ways = {
      {kHostIp4, Cat("billing -to ", kHostIp4, ":8080")},
      {kHostIp6, Cat("billing -to [", kHostIp6, "]:8080")}};
  for (const auto& [to, words] : ways) {
    EXPECT_TRUE(IsSilent(container(), {.to = to, .port = 8080}));
    EXPECT_THAT(RunLine(Cat("inspect ", words)),
                Exits(1, Out(HasSubstr("its own published ports      <- why"))));
  }
  ASSERT_THAT(RunLine("reconcile"), Exits(0));
  for (const auto& [to, words] : ways) {
    EXPECT_EQ(TcpText(container(), to, 8080), "hello");
    EXPECT_THAT(RunLine(Cat("inspect ", words)), Exits(0));
  }
}

}  // namespace
}  // namespace nomad_bridge::test
