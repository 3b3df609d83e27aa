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

}  // namespace
}  // namespace nomad_bridge::test
