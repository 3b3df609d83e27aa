// A probe on a node whose uplink is a bridge with two ports: the bridge learns nothing from it.
#include "tests/plugin/lan_world.h"

namespace nomad_bridge::test {
namespace {

// Counts the datagrams that come to port 7 until 60 were sent, and prints the number.
constexpr const char* kCount = R"(
import os, select, socket, sys
ends = [socket.socket(socket.AF_INET6 if ':' in to else socket.AF_INET, socket.SOCK_DGRAM)
        for to in sys.argv[1:]]
for end, to in zip(ends, sys.argv[1:]):
    end.bind((to, 7))
open('/run/begun', 'w')
count = 0
while not os.path.exists('/run/over'):
    for end in select.select(ends, [], [], 0.1)[0]:
        end.recv(100)
        count += 1
print(count)
)";

constexpr const char* kSend = R"(
import socket, sys, time
for i in range(60):
    for to in sys.argv[1:]:
        with socket.socket(socket.AF_INET6 if ':' in to else socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b'hello', (to, 7))
    time.sleep(0.01)
)";

class ProbeByTwoPorts : public LanWorld {
 protected:
  void SetUp() override {
    // Its name comes before that of the port with the router.
    const Node& neighbour = AddContainer("neighbour");
    host().Must(
        Words("ip link add another up master lan type veth peer name eth0 netns neighbour"));
    host().Must(Words("ip -n neighbour link set eth0 up"));
    mac_ = LinkOn(neighbour, "eth0").at("address");
    Attach(Publish({Port(8080, 80)}, DualStack()));
    Serve(container(), Protocol::kTcp, {"::"}, 80, "hello");
    for (const char* const node : {kHostIp4, kHostIp6}) {
      EXPECT_TRUE(Soon([&] { return TcpText(outside(), node, 8080) == "hello"; }));
    }
  }

  // The MACs that the bridge has learned, with their ports, but for the neighbour's own.
  [[nodiscard]] std::string Learned() {
    return host().Must(
        {"sh",
         "-c",
         Cat("bridge fdb show br lan | grep -v -e permanent -e self -e ", mac_, " | sort")});
  }

  std::string mac_;
};

TEST_F(ProbeByTwoPorts, LeavesAStreamToTheRouterAlone) {
  const std::string learned = Learned();
  Process counter = Process::Start({.argv = {"python3", "-c", kCount, kOutsideIp4, kOutsideIp6},
                                    .in_child = [&] { outside().Enter(); }});
  EXPECT_TRUE(Soon([] { return FindStatus("/run/begun").has_value(); }));
  Process sender = Process::Start({.argv = {"python3", "-c", kSend, kOutsideIp4, kOutsideIp6}});
  EXPECT_THAT(RunLine("inspect 8080"), Exits(0, Out(HasSubstr("answer ok"))));
  EXPECT_EQ(sender.Wait().exit_code, 0);
  ReplaceFile("/run/over", "");
  EXPECT_EQ(counter.Wait().out, "120\n");
  EXPECT_EQ(Learned(), learned);
}

// The bridge has not heard of the router for long.
TEST_F(ProbeByTwoPorts, TeachesNothingOfARouterThatTheBridgeHasForgotten) {
  outside().Nft("table inet silent { chain o { type filter hook output priority 0; drop; }; }");
  host().Must(Words("ip link set lan type bridge fdb_flush"));
  ASSERT_EQ(Learned(), "");
  EXPECT_THAT(RunLine("inspect 8080"), Exits(0, Out(HasSubstr("answer ok"))));
  EXPECT_EQ(Learned(), "");
  outside().Must(Words("nft delete table inet silent"));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
}

}  // namespace
}  // namespace nomad_bridge::test
