// What policies make of connections that have begun before: ended by -cut, unknown to conntrack, or
// of none at all; with and without the sysctls of br_netfilter.
#include <deque>
#include <thread>

#include "tests/plugin/policy_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

// Sends a row each 50 ms to who has said something, by TCP and UDP.
constexpr const char* kServer = R"(
import socket, threading, time
def serve(send):
    while True:
        try:
            send(b'row')
        except OSError:
            pass
        time.sleep(0.05)
def listen(kind):
    s = socket.socket(socket.AF_INET6, kind)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind(('::', 7000))
    return s
def tcp(s):
    while True:
        c, _ = s.accept()
        threading.Thread(target=serve, args=(c.send,), daemon=True).start()
def udp(s):
    while True:
        d, a = s.recvfrom(99)
        if d == b'hi':
            send = lambda row, to=a: s.sendto(row, to)
            threading.Thread(target=serve, args=(send,), daemon=True).start()
t, u = listen(socket.SOCK_STREAM), listen(socket.SOCK_DGRAM)
t.listen()
threading.Thread(target=tcp, args=(t,), daemon=True).start()
open('/run/serves', 'w')
udp(u)
)";

// Says how many rows it has got, each time in a file; `talks`: answers each.
constexpr const char* kClient = R"(
import os, socket, sys
to, port, kind, talks, log = sys.argv[1:]
s = socket.socket(socket.AF_INET6 if ':' in to else socket.AF_INET,
                  socket.SOCK_STREAM if kind == 'tcp' else socket.SOCK_DGRAM)
s.connect((to, int(port)))
s.send(b'hi')
rows = 0
while True:
    try:
        if not s.recv(3):
            break
        rows += 1
        if talks == 'talks':
            s.send(b'yes')
    except ConnectionResetError:
        break
    except OSError:
        continue
    with open(log + '.new', 'w') as f:
        f.write(str(rows))
    os.rename(log + '.new', log)
)";

// A client of rows.
class Stream {
 public:
  Stream(const Node& from,
         const std::string& to,
         int port,
         const std::string& protocol,
         const std::string& talks)
      : log_(Format("/run/rows-{}-{}-{}-{}-{}", from.name(), to, port, protocol, talks)),
        process_(Process::Start(
            {.argv = {"python3", "-c", kClient, to, Cat(port), protocol, talks, log_},
             .in_child = [&] { from.Enter(); }})) {
    EXPECT_TRUE(Soon([&] { return Rows() > 3; })) << log_;
  }

  // Whether rows come.
  [[nodiscard]] bool Flows() const {
    const int before = Rows();
    // Twenty rows are due in it: that none comes shows only by waiting.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return Rows() > before + 3;
  }
  [[nodiscard]] const std::string& name() const { return log_; }

 private:
  [[nodiscard]] int Rows() const { return std::stoi(FindFile(log_).value_or("0")); }

  std::string log_;
  Process process_;
};

class PolicyConnections : public PolicyWorld, public ::testing::WithParamInterface<const char*> {
 protected:
  PolicyConnections() { SetBridgeNf(GetParam()); }

  // `node` sends rows to whom asks for them.
  void ServeRows(const Node& node) {
    servers_.push_back(
        Process::Start({.argv = {"python3", "-c", kServer}, .in_child = [&] { node.Enter(); }}));
    ASSERT_TRUE(Soon([] { return FindStatus("/run/serves").has_value(); }));
  }
  [[nodiscard]] std::string Cut() {
    const Outcome outcome = Run({"policy", "apply", "-cut", kDirectory});
    EXPECT_EQ(outcome.exit_code, 0) << outcome;
    return outcome.err;
  }

  std::vector<Process> servers_;
};

const json kRowsAlone = {
    {"name", "rows"},
    {"to", {{"namespace", "prod"}}},
    {"allow", {{{"from", {"same-namespace"}}, {"ports", {"tcp/7000", "udp/7000"}}}}}};

TEST_P(PolicyConnections, EndIfCutEvenIfTheServerSendsOn) {
  Node& api = Start("prod", "api");
  Node& lb = Start("prod", "lb");
  Node& dev = Start("dev", "test");
  ServeRows(api);
  Apply({{{"name", "other"}, {"to", {{"namespace", "other"}}}, {"allow", json::array()}}});
  std::deque<Stream> refused;
  std::deque<Stream> allowed;
  for (const int family : {4, 6}) {
    for (const auto& [protocol, talks] : {std::pair("tcp", "talks"),
                                          std::pair("tcp", "listens"),
                                          std::pair("udp", "talks"),
                                          std::pair("udp", "listens")}) {
      refused.emplace_back(dev, AddressOfNode(api, family), 7000, protocol, talks);
      allowed.emplace_back(lb, AddressOfNode(api, family), 7000, protocol, talks);
    }
  }
  Apply({kRowsAlone});
  for (const Stream& stream : refused) {
    EXPECT_TRUE(stream.Flows()) << stream.name() << " without -cut";
  }
  EXPECT_THAT(Cut(), HasSubstr("8 connections ended"));
  for (const Stream& stream : refused) {
    EXPECT_FALSE(stream.Flows()) << stream.name();
  }
  for (const Stream& stream : allowed) {
    EXPECT_TRUE(stream.Flows()) << stream.name();
  }
  EXPECT_THAT(Cut(), HasSubstr("0 connections ended"));
  // What was ended and would be allowed again begins anew.
  Apply({});
  for (const Stream& stream : refused) {
    if (stream.name().find("udp") != std::string::npos) {
      EXPECT_TRUE(stream.Flows()) << stream.name();
    }
  }
}

// Also at a published port of the same number. An operator's rules for two uplinks rewrite the mark
// of every connection.
TEST_P(PolicyConnections, StayCutWhateverMarkOthersGiveThem) {
  Node& api =
      Start("prod", "api", Publish({Port(7000, 7000), Port(7000, 7000, "udp")}, DualStack()));
  Node& dev = Start("dev", "test");
  ServeRows(api);
  host().Must({"nft", "-f", "-"}, R"(
table inet operator {
  chain pre {
    type filter hook prerouting priority mangle;
    ct mark set 2
  }
})");
  // So that the bridge hands over the neighbours' packets from the beginning.
  Apply({{{"name", "other"}, {"to", {{"namespace", "other"}}}, {"allow", json::array()}}});
  std::deque<Stream> refused;
  for (const char* const protocol : {"tcp", "udp"}) {
    for (const char* const talks : {"talks", "listens"}) {
      refused.emplace_back(outside(), kHostIp4, 7000, protocol, talks);
      refused.emplace_back(outside(), kHostIp6, 7000, protocol, talks);
      refused.emplace_back(dev, AddressOfNode(api), 7000, protocol, talks);
      refused.emplace_back(dev, AddressOfNode(api, 6), 7000, protocol, talks);
    }
  }
  Apply({kRowsAlone});
  EXPECT_THAT(Cut(), HasSubstr("16 connections ended"));
  for (const Stream& stream : refused) {
    EXPECT_FALSE(stream.Flows()) << stream.name();
  }
  EXPECT_THAT(Cut(), HasSubstr("0 connections ended"));
}

// Sends an echo request each 50 ms, by one socket, and writes down how many answers came.
constexpr const char* kPing = R"(
import os, socket, struct, sys, time
to, log = sys.argv[1:]
is_ipv6 = ':' in to
s = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET, socket.SOCK_RAW,
                  socket.IPPROTO_ICMPV6 if is_ipv6 else socket.IPPROTO_ICMP)
s.settimeout(0.05)
def checksum(data):
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
answers = 0
for sequence in range(60000):
    head = struct.pack('!BBHHH', 128 if is_ipv6 else 8, 0, 0, 77, sequence & 0xffff)
    if not is_ipv6:
        head = head[:2] + struct.pack('!H', checksum(head)) + head[4:]
    try:
        s.sendto(head, (to, 0))
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            data = s.recv(999)
            data = data if is_ipv6 else data[20:]
            if data[0] == (129 if is_ipv6 else 0) and data[4:6] == b'\0M':
                answers += 1
    except OSError:
        pass
    with open(log + '.new', 'w') as f:
        f.write(str(answers))
    os.rename(log + '.new', log)
)";

TEST_P(PolicyConnections, OfIcmpEndIfCut) {
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  Apply({{{"name", "other"}, {"to", {{"namespace", "other"}}}, {"allow", json::array()}}});
  std::vector<Process> pings;
  const auto answers = [](int family) {
    return std::stoi(FindFile(Cat("/run/ping", family)).value_or("0"));
  };
  for (const int family : {4, 6}) {
    pings.push_back(Process::Start(
        {.argv = {"python3", "-c", kPing, AddressOfNode(api, family), Cat("/run/ping", family)},
         .in_child = [&] { dev.Enter(); }}));
    ASSERT_TRUE(Soon([&] { return answers(family) > 3; })) << family;
  }
  Apply({kNamespaces});
  static_cast<void>(Cut());
  const std::pair before(answers(4), answers(6));
  std::this_thread::sleep_for(std::chrono::seconds(1));  // twenty are due
  EXPECT_LE(answers(4), before.first + 1);
  EXPECT_LE(answers(6), before.second + 1);
  Apply({});
  EXPECT_TRUE(Soon([&] { return answers(4) > before.first + 3 && answers(6) > before.second + 3; }))
      << "what is allowed again goes on";
}

// The same ports again: conntrack has forgotten the cut connection, and the policies allow it.
TEST_P(PolicyConnections, ALaterOneWithTheSamePortsIsNotCut) {
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  Apply({{{"name", "other"}, {"to", {{"namespace", "other"}}}, {"allow", json::array()}}});
  const auto ask = [&] {
    return Ask(dev,
               {.protocol = Protocol::kUdp,
                .to = AddressOfNode(api),
                .port = 80,
                .from_port = 5353,
                .patience = std::chrono::milliseconds(700)})
        .has_value();
  };
  ASSERT_TRUE(ask());
  Apply({kNamespaces});
  EXPECT_THAT(Cut(), HasSubstr("1 connection ended"));
  EXPECT_FALSE(ask());
  host().Must({"conntrack", "-D", "-p", "udp"});
  EXPECT_FALSE(ask()) << "the policies refuse it";
  Apply({});
  EXPECT_TRUE(ask());
  EXPECT_TRUE(ask());
}

// With bridge-nf-call-iptables 0 conntrack has never seen them.
TEST_P(PolicyConnections, GoOnIfAllowedAlthoughOlderThanTheFirstPolicy) {
  Node& api = Start("prod", "api");
  Node& lb = Start("prod", "lb");
  Node& dev = Start("dev", "test");
  ServeRows(api);
  std::deque<Stream> allowed;
  std::deque<Stream> refused;
  for (const int family : {4, 6}) {
    for (const char* const talks : {"talks", "listens"}) {
      allowed.emplace_back(lb, AddressOfNode(api, family), 7000, "tcp", talks);
      refused.emplace_back(dev, AddressOfNode(api, family), 7000, "tcp", talks);
    }
  }
  Apply({kRowsAlone});
  for (const Stream& stream : allowed) {
    EXPECT_TRUE(stream.Flows()) << stream.name();
  }
  static_cast<void>(Cut());
  for (const Stream& stream : allowed) {
    EXPECT_TRUE(stream.Flows()) << stream.name() << " after -cut";
  }
  for (const Stream& stream : refused) {
    EXPECT_FALSE(stream.Flows()) << stream.name() << " after -cut";
  }
}

// Sends a segment of TCP from port 80 and from port 40000 to port 80 with each of `flags`.
constexpr const char* kScan = R"(
import socket, struct, sys
source, to = sys.argv[1:3]
family = socket.AF_INET6 if ':' in to else socket.AF_INET
s = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_TCP)
def checksum(segment):
    ends = socket.inet_pton(family, source) + socket.inet_pton(family, to)
    data = ends + struct.pack('!HH', 6, len(segment)) + segment
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
for flags in sys.argv[3:]:
    for port in (80, 40000):
        head = struct.pack('!HHIIBBHHH', port, 80, 1, 0, 0x50, int(flags), 65535, 0, 0)
        s.sendto(head[:16] + struct.pack('!H', checksum(head)) + head[18:], (to, 0))
)";
// Prints the flags of the segments that come to port 80, until one with URG alone.
constexpr const char* kHear = R"(
import socket, sys
s = socket.socket(int(sys.argv[1]), socket.SOCK_RAW, socket.IPPROTO_TCP)
open('/run/hears', 'w')
flags = 0
while flags != 32:
    packet = s.recv(999)
    segment = packet[20:] if int(sys.argv[1]) == socket.AF_INET else packet
    if segment[2:4] == b'\0\x50':
        flags = segment[13]
        print(flags)
)";

TEST_P(PolicyConnections, AScanWithoutSynFindsNothing) {
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  Apply({kNamespaces});
  for (const int family : {4, 6}) {
    fs::remove("/run/hears");
    Process hears = Process::Start({.argv = {"python3", "-c", kHear, Cat(family == 4 ? 2 : 10)},
                                    .in_child = [&] { api.Enter(); }});
    ASSERT_TRUE(Soon([] { return FindStatus("/run/hears").has_value(); }));
    const std::string to = AddressOfNode(api, family);
    // FIN, none, FIN PSH URG, FIN ACK, ACK, SYN ACK, RST; last of all what ends the listening.
    dev.Must({"python3",
              "-c",
              kScan,
              AddressOfNode(dev, family),
              to,
              "1",
              "0",
              "41",
              "17",
              "16",
              "18",
              "4"});
    host().Must(
        {"python3", "-c", kScan, std::string(family == 4 ? kBridgeIp4 : kBridgeIp6), to, "32"});
    EXPECT_THAT(Lines(hears.Wait().out), Each("32")) << family;
  }
}

INSTANTIATE_TEST_SUITE_P(BridgeNfCall,
                         PolicyConnections,
                         ::testing::Values("0", "1"),
                         [](const auto& row) { return row.param[0] == '0' ? "Off" : "On"; });

}  // namespace
}  // namespace nomad_bridge::test
