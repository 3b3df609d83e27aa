// Packets that a rule of others hands to a program, which decides: while one reads them, that it
// drops them cannot be told.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

// Accepts all that comes to queue 7. linux/netfilter/nfnetlink_queue.h
constexpr const char* kReader = R"(
import socket, struct
queue = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
queue.bind((0, 0))
def send(kind, attribute, value):
    value += bytes(-len(value) % 4)
    body = struct.pack('=BBH', 0, 0, socket.htons(7))
    body += struct.pack('=HH', 4 + len(value), attribute) + value
    queue.send(struct.pack('=IHHII', 16 + len(body), 3 << 8 | kind, 1, 0, 0) + body)
send(2, 1, struct.pack('!BBH', 1, 0, 0))
send(2, 2, struct.pack('!IBBH', 0, 1, 0, 0))
while True:
    packet = queue.recv(65536)
    if struct.unpack_from('=H', packet, 4)[0] == 3 << 8:
        at = 20
        while at < len(packet):
            size, attribute = struct.unpack_from('=HH', packet, at)
            if attribute == 1:
                send(1, 2, struct.pack('!I', 1) + packet[at + 4:at + 8])
            at += (size + 3) & ~3
)";

class Queue : public CausesWorld {};

TEST_F(Queue, WithAReaderThatAcceptsIsNoCause) {
  const auto is_read = [&] {
    return host().Must(Words("cat /proc/net/netfilter/nfnetlink_queue")).find(" 7 ") !=
           std::string::npos;
  };
  {
    Process reader = Process::Start({.argv = {"python3", "-c", kReader}});
    ASSERT_TRUE(Soon(is_read));
    host().Must(Words("iptables -I FORWARD -p tcp -j NFQUEUE --queue-num 7"));
    EXPECT_TRUE(Answers(Way::kTcp));
    ExpectNoCause();
  }
  ASSERT_TRUE(Soon([&] { return !is_read(); }));
  EXPECT_FALSE(Answers(Way::kTcp, std::chrono::milliseconds(250)));
  EXPECT_THAT(At(Diagnose(Way::kTcp), "/causes/0/what"),
              HasSubstr("chain FORWARD of table ip filter (rule with handle"));
  EXPECT_TRUE(DoctorsChecks().contains("ports.blocked"));
}

}  // namespace
}  // namespace nomad_bridge::test
