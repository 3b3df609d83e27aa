// Out of the allocation as the node: which ports, and many flows at once.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr std::uint16_t kPort = 7000;

class Egress : public World {};

// Peers of a game, STUN or DTLS know the port, and a flow goes on that the kernel has forgotten:
// after an uplink that went down and up, say.
TEST_F(Egress, KeepsTheSourcePort) {
  const Server udp = Server::Start(outside(), Protocol::kUdp, "::", kPort, "udp");
  const Server tcp = Server::Start(outside(), Protocol::kTcp, "::", kPort, "tcp");
  Attach(DualStack());

  for (const auto& [to, source, node] : {std::tuple(kOutsideIp4, "172.26.64.2", kHostIp4),
                                         std::tuple(kOutsideIp6, "fd00:26::2", kHostIp6)}) {
    const char* const family = to == kOutsideIp4 ? "ipv4" : "ipv6";
    ASSERT_TRUE(Ask(container(),
                    {.protocol = Protocol::kUdp, .to = to, .port = kPort, .from_port = 27015}));
    EXPECT_THAT(host().Must(Words(Cat("conntrack -L -p udp -f ", family, " --src ", source))),
                HasSubstr(Cat("src=", to, " dst=", node, " sport=7000 dport=27015")));

    std::optional<Connection> connection = Connection::Open(container(), {.to = to, .port = kPort});
    ASSERT_TRUE(connection);
    host().Must(Words("conntrack -F"));
    EXPECT_TRUE(connection->Echoes("still there")) << to;
  }
}

TEST_F(Egress, ChoosesSourcePortsAtRandomIfAskedTo) {
  const Server udp = Server::Start(outside(), Protocol::kUdp, "0.0.0.0", kPort, "udp");
  Attach(DualStack({{"randomPorts", true}}));
  Node& neighbour = AddContainer("neighbour");
  Attach(DualStack(), As("neighbour", neighbour));

  for (const Node* const node : {&container(), &neighbour}) {
    ASSERT_TRUE(Ask(
        *node, {.protocol = Protocol::kUdp, .to = kOutsideIp4, .port = kPort, .from_port = 27015}));
  }

  const auto answers_to = [&](const char* source) {
    return host().Must(Words(Cat("conntrack -L -p udp --src ", source)));
  };
  EXPECT_THAT(answers_to("172.26.64.2"), Not(HasSubstr("dport=27015 ")));
  EXPECT_THAT(answers_to("172.26.64.3"), HasSubstr("dport=27015 "));
}

// Of both protocols, from the same ports, all at once. What a processor's backlog drops, which all
// namespaces of the machine share (net.core.netdev_max_backlog), is sent again. So is what
// conntrack drops because two processors gave one port to two flows at the same moment; it counts
// those.
class ManyFlows : public Egress, public ::testing::WithParamInterface<const char*> {};

TEST_P(ManyFlows, LoseNothingWhenTheyBeginTogether) {
  constexpr const char* kServer = R"(
import selectors, socket, sys
to = sys.argv[1]
family = socket.AF_INET6 if ":" in to else socket.AF_INET
ready = selectors.DefaultSelector()
tcp = socket.create_server((to, 7000), family=family, backlog=4096)
udp = socket.socket(family, socket.SOCK_DGRAM)
udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
udp.bind((to, 7000))
open("/run/serving", "w").close()
for listener in tcp, udp:
    ready.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        if key.fileobj is udp:
            udp.sendto(*udp.recvfrom(64))
        else:
            tcp.accept()[0].sendall(b"x")
)";
  constexpr const char* kClient = R"(
import selectors, socket, sys
to = sys.argv[1]
family = socket.AF_INET6 if ":" in to else socket.AF_INET
ready = selectors.DefaultSelector()
for number in range(500):
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        flow = socket.socket(family, kind)
        flow.setblocking(False)
        flow.bind(("", 20000 + number))
        ready.register(flow, selectors.EVENT_READ)
        flow.connect_ex((to, 7000))
        if kind == socket.SOCK_DGRAM:
            flow.send(b"x")
answered = 0
for attempt in range(5):
    while answered < 1000 and (events := ready.select(1)):
        for key, _ in events:
            answered += len(key.fileobj.recv(64))
            ready.unregister(key.fileobj)
    for key in list(ready.get_map().values()):
        if key.fileobj.type == socket.SOCK_DGRAM:
            key.fileobj.send(b"x")
print(answered)
)";
  Node& neighbour = AddContainer("neighbour");
  Attach(DualStack());
  Attach(DualStack(), As("neighbour", neighbour));
  const auto python = [](const Node& where, const char* program) {
    return Process::Start(
        {.argv = {"nsenter", Cat("--net=", where.path()), "python3", "-c", program, GetParam()}});
  };
  Process server = python(outside(), kServer);
  ASSERT_TRUE(Soon([] { return std::filesystem::exists("/run/serving"); }));

  Process first = python(container(), kClient);
  Process second = python(neighbour, kClient);

  EXPECT_EQ(first.Wait().out, "1000\n");
  EXPECT_EQ(second.Wait().out, "1000\n");
  constexpr const char* kMoreThanNine = " (insert_failed|drop)=[1-9][0-9]";
  EXPECT_THAT(host().Must(Words("conntrack -S")), Not(::testing::ContainsRegex(kMoreThanNine)));
}

INSTANTIATE_TEST_SUITE_P(Families,
                         ManyFlows,
                         ::testing::Values(kOutsideIp4, kOutsideIp6),
                         [](const auto& each) { return each.index == 0 ? "Ipv4" : "Ipv6"; });

}  // namespace
}  // namespace nomad_bridge::test
