// What a probe leaves behind, which is nothing, however it ends; and what it does to others
// meanwhile.
#include "tests/plugin/probe_world.h"
#include "tests/support/killing.h"
#include "tests/support/sweep.h"

namespace nomad_bridge::test {
namespace {

class Probe : public ProbeWorld {
 protected:
  // What is there of a probe, in any namespace: tables, and connections that have only begun.
  [[nodiscard]] std::string Remains() {
    std::string remains;
    for (const auto& each : fs::directory_iterator("/run/netns")) {
      remains += host().Must({"nsenter", Cat("--net=", each.path().string()), "sh", "-c", R"(
          nft list tables | grep nomad-bridge-probe
          ss -Htan state syn-recv
          conntrack -L -p tcp 2>/dev/null | grep -E 'SYN_SENT|SYN_RECV'
          true)"});
    }
    return remains;
  }
  [[nodiscard]] bool HasNoOpenConnection() {
    return container()
        .Must(Words("ss -Htan state established state fin-wait-1 state fin-wait-2 state close-wait "
                    "state last-ack state closing"))
        .empty();
  }
  [[nodiscard]] std::string Connections() {
    return host().Must({"sh", "-c", Cat("conntrack -L 2>/dev/null | grep 198.41.0.4 || true")});
  }
};

// Counts the packets of IPv4 and IPv6 that come, but for those of the links themselves.
constexpr const char* kCapture = R"(
import os, socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
s.bind(('uplink', 3))
s.settimeout(0.1)
open('/run/begun', 'w')
count = 0
while not os.path.exists('/run/over'):
    try:
        packet = s.recv(65536)
    except TimeoutError:
        continue
    count += packet[0] >> 4 == 4 or packet[0] >> 4 == 6 and packet[6] in (6, 17)
print(count)
)";

// Sends a datagram to port 5001 of both addresses, again and again.
constexpr const char* kSendAlways = R"(
import os, socket, sys, time
ends = [(socket.socket(socket.AF_INET6 if ':' in to else socket.AF_INET, socket.SOCK_DGRAM), to)
        for to in sys.argv[1:]]
open('/run/begun', 'w')
while not os.path.exists('/run/over'):
    for end, to in ends:
        end.sendto(b'hello', (to, 5001))
    time.sleep(0.002)
)";

TEST_F(Probe, LeavesNothingBehind) {
  ASSERT_TRUE(Answers(kTcp));
  const std::string ruleset = host().Must(Words("nft -s list ruleset"));
  ASSERT_THAT(RunLine("inspect 8080"), Exits(0, Out(HasSubstr("answer ok"))));
  EXPECT_EQ(Remains(), "");
  EXPECT_EQ(Connections(), "");
  EXPECT_EQ(host().Must(Words("nft -s list ruleset")), ruleset);
  EXPECT_EQ(RunLine("list -json").json.at("attachments").size(), 1U);
}

TEST_F(Probe, SendsNothingOutsideTheNode) {
  ASSERT_TRUE(Answers(kTcp)) << "the gateway is known";
  EXPECT_TRUE(Soon([&] { return HasNoOpenConnection(); })) << "its end is on its way";
  Process capture =
      Process::Start({.argv = {"python3", "-c", kCapture}, .in_child = [&] { outside().Enter(); }});
  EXPECT_TRUE(Soon([] { return FindStatus("/run/begun").has_value(); }));
  ASSERT_THAT(RunLine("inspect 8080"), Exits(0));
  ASSERT_THAT(RunLine("doctor -probe ports.probe"), Exits(0, Out(HasSubstr("ok    ports.probe"))));
  ReplaceFile("/run/over", "");
  EXPECT_EQ(capture.Wait().out, "0\n");
}

// A rule sends it to another machine: it is caught on its way there.
TEST_F(Probe, SendsNothingOutsideTheNodeDespiteARule) {
  ASSERT_TRUE(Answers(kTcp)) << "the other machine is known";
  EXPECT_TRUE(Soon([&] { return HasNoOpenConnection(); })) << "its end is on its way";
  host().Nft(Cat(
      "table ip mine { chain p { type nat hook prerouting priority -110; tcp dport 8080 dnat to ",
      kOutsideIp4,
      ":80; }; }"));
  Process capture =
      Process::Start({.argv = {"python3", "-c", kCapture}, .in_child = [&] { outside().Enter(); }});
  EXPECT_TRUE(Soon([] { return FindStatus("/run/begun").has_value(); }));
  EXPECT_THAT(RunLine("inspect 8080"), Exits(1, Out(HasSubstr("redirects packets for the port"))));
  ReplaceFile("/run/over", "");
  EXPECT_EQ(capture.Wait().out, "0\n");
}

// The node routes what allocations send into another allocation, a VPN's: it is caught on its way
// there. So are answers to clients that have come by the uplink.
TEST_F(Probe, SendsNothingThroughAnotherUplink) {
  Node& vpn = AddContainer("vpn");
  const json result = Attach(DualStack({{"sourceCheck", false}}), As("vpn", vpn));
  // Not the ends of our own connections, which may still be on their way.
  vpn.Nft(
      "table inet seen { counter came { packets 0 bytes 0 }; chain i { type filter hook prerouting "
      "priority -300; tcp flags & (syn | rst) != 0 counter name came; udp dport 7 counter name "
      "came; "
      "}; }");
  constexpr const char* kFarIp6 = "2001:db8:203::9";
  for (const auto& [family, far, network] :
       {std::tuple(4, "203.0.113.9", "172.26.64.0/20"), std::tuple(6, kFarIp6, "fd00:26::/64")}) {
    const std::string beyond = far;
    const std::string ip = Cat("ip -", family);
    vpn.Must(Words(Cat(ip, " address add ", beyond, " dev lo", family == 6 ? " nodad" : "")));
    Serve(vpn, Protocol::kTcp, {beyond}, 7, "vpn");
    Serve(vpn, Protocol::kUdp, {beyond}, 7, "vpn");
    host().Must(Words(
        Cat(ip, " route add default via ", AddressOf(result, family), " dev nomad table 100")));
    host().Must(Words(Cat(ip, " rule add from ", network, " lookup 100")));
    ASSERT_TRUE(Soon([&] { return TcpText(container(), beyond, 7) == "vpn"; })) << beyond;
    ASSERT_EQ(UdpText(container(), beyond, 7), "vpn");
    vpn.Must(Words("nft reset counters"));
    const std::string target = family == 4 ? beyond : Cat('[', beyond, ']');
    for (const char* const protocol : {"", "/udp"}) {
      EXPECT_THAT(Run({"inspect", kAllocation, "-to", Cat(target, ":7", protocol)}),
                  Exits(0, Out(HasSubstr("nomad ok"))));
    }
    EXPECT_THAT(RunLine(Cat("inspect 8080 -from ", family == 4 ? kOutsideIp4 : kOutsideIp6)),
                Exits(1, Out(HasSubstr("answers leave by 'nomad', not by 'uplink'"))));
    EXPECT_THAT(vpn.Must(Words("nft list counters")), HasSubstr("packets 0 "));
  }
}

// Killed at any of its system calls: a reset comes all the same, and the markers go.
class KilledProbe : public Probe {
 protected:
  void SetUp() override {
    Probe::SetUp();
    Node& neighbour = AddContainer("neighbour");
    Attach(DualStack(), As("neighbour", neighbour));
    Serve(neighbour, Protocol::kTcp, {"::"}, 80, "neighbour");
    Serve(outside(), Protocol::kTcp, {kOutsideIp4}, 80, "outside");
    ASSERT_TRUE(Answers(kTcp));
    ASSERT_EQ(TcpText(container(), kOutsideIp4, 80), "outside");
    ASSERT_EQ(TcpText(container(), "172.26.64.3", 80), "neighbour");
  }
  void ExpectNothingRemains(const std::vector<std::string>& line) {
    ASSERT_THAT(Run(line), Exits(0));
    int killed = 0;
    for (int nth = FirstPoint();; nth += PointStep()) {
      if (!RunKilledAt(Line(line), nth).killed) {
        break;
      }
      ++killed;
      EXPECT_TRUE(Soon([&] { return Remains().empty(); })) << "call " << nth << "\n" << Remains();
    }
    EXPECT_GT(killed, 3);
    EXPECT_TRUE(Answers(kTcp));
  }
};

TEST_F(KilledProbe, OfAPortLeavesNothing) {
  ExpectNothingRemains({"inspect", "8080"});
}

TEST_F(KilledProbe, ToAnotherMachineLeavesNothing) {
  ExpectNothingRemains({"inspect", kAllocation, "-to", Cat(kOutsideIp4, ":80")});
}

TEST_F(KilledProbe, ToANeighbourLeavesNothing) {
  ExpectNothingRemains({"inspect", kAllocation, "-to", "172.26.64.3:80"});
}

TEST_F(KilledProbe, OfDoctorLeavesNothing) {
  ExpectNothingRemains({"doctor", "-probe", "ports.probe"});
}

TEST_F(Probe, LeavesOthersAlone) {
  Node& other = AddContainer("other");
  constexpr int kAtOnce = 3;
  std::vector<Process> probes;
  probes.reserve(kAtOnce);
  for (int i = 0; i < kAtOnce; ++i) {
    probes.push_back(Process::Start(Line({"inspect", "8080"})));
  }
  Attach(DualStack(), As("other", other));
  for (Process& probe : probes) {
    EXPECT_THAT(probe.Wait(), Exits(0, Out(HasSubstr("answer ok"))));
  }
  EXPECT_EQ(Remains(), "");
}

// The client has connections from 10,000 ports. The probe takes none of these.
TEST_F(Probe, TakesNoConnectionOfItsClient) {
  for (const auto& [client, node] :
       {std::pair(kOutsideIp4, kHostIp4), std::pair(kOutsideIp6, kHostIp6)}) {
    std::optional<Connection> connection =
        Connection::Open(outside(), {.to = node, .port = 8080, .from = client, .from_port = 50000});
    ASSERT_TRUE(connection);
    std::string others;
    for (int port = 50001; port < 60000; ++port) {
      others += Format("-I -p tcp -s {} -d {} --sport {} --dport 8080 --state ESTABLISHED -t 300\n",
                       client,
                       node,
                       port);
    }
    host().Must({"conntrack", "-R", "-"}, others);
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(RunLine(Cat("inspect 8080 -from ", client)), Exits(0));
    }
    const std::string count = Format(
        "conntrack -L -p tcp -s {} -d {} --dport 8080 2>/dev/null | grep -c ESTAB", client, node);
    EXPECT_EQ(host().Must({"sh", "-c", count}), "10000\n");
    EXPECT_TRUE(connection->Echoes("still here"));
  }
}

// Somebody traces datagrams to another port, which a rule drops.
TEST_F(Probe, KnowsItsPacketsFromOthersThatAreTraced) {
  const std::vector<std::string> addresses = AddressesOn(container(), "eth0");
  Serve(
      container(), Protocol::kUdp, {addresses.at(1).substr(0, addresses.at(1).find('/'))}, 80, "");
  container().Nft(
      "table inet own { chain i { type filter hook input priority 0; udp dport 80 "
      "drop; }; }");
  host().Nft(
      "table inet op { chain t { type filter hook prerouting priority -301; udp dport 5001 "
      "meta nftrace set 1; }; chain i { type filter hook input priority 10; udp dport 5001 "
      "drop; }; }");
  const Process sender = Process::Start({.argv = {"python3", "-c", kSendAlways, kHostIp4, kHostIp6},
                                         .in_child = [&] { outside().Enter(); }});
  EXPECT_TRUE(Soon([] { return FindStatus("/run/begun").has_value(); }));
  for (const std::string client : {kOutsideIp4, kOutsideIp6, kOutsideIp4, kOutsideIp6}) {
    EXPECT_THAT(DiagnoseFrom(client).dump(),
                AllOf(HasSubstr("chain i of table inet own"), Not(HasSubstr("inet op"))));
  }
  ReplaceFile("/run/over", "");
}

// What its own tables change is nobody's change of ours.
TEST_F(Probe, LeavesOurTablesAlone) {
  ASSERT_THAT(RunLine("reconcile"), Exits(0));
  ASSERT_THAT(RunLine("inspect 8080"), Exits(0));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Out(HasSubstr("nothing to repair"))));
}

// Loads an XDP program that drops everything into the driver of the uplink, until its end.
constexpr const char* kXdp = R"(
import ctypes, os, socket, struct, time
libc = ctypes.CDLL(None, use_errno=True)
def bpf(command, attributes):
    data = ctypes.create_string_buffer(attributes, 128)
    fd = libc.syscall(SYS_BPF, command, data, 128)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    return fd
SYS_BPF = {'x86_64': 321, 'aarch64': 280}[os.uname().machine]
DROP_ALL = ctypes.create_string_buffer(struct.pack('<QQ', 0x1000000b7, 0x95))
LICENCE = ctypes.create_string_buffer(b'GPL')
program = bpf(5, struct.pack('<IIQQ', 6, 2, ctypes.addressof(DROP_ALL), ctypes.addressof(LICENCE)))
link = bpf(28, struct.pack('<IIII', program, socket.if_nametoindex('uplink'), 37, 1 << 2))
open('/run/begun', 'w')
while not os.path.exists('/run/over'):
    time.sleep(0.05)
)";

// A packet of a client meets it before all that the probe meets.
TEST_F(Probe, NamesAnXdpProgramInFrontOfIt) {
  ASSERT_TRUE(Answers(kTcp));
  ASSERT_TRUE(Answers(kTcp6));
  Process loader = Process::Start({.argv = {"python3", "-c", kXdp}});
  EXPECT_TRUE(Soon([] { return FindStatus("/run/begun").has_value(); })) << loader.Wait();
  EXPECT_FALSE(Answers(kTcp, std::chrono::milliseconds(250)));
  EXPECT_FALSE(Answers(kTcp6, std::chrono::milliseconds(250)));
  EXPECT_THAT(
      RunLine("inspect 8080"),
      Exits(2, Out(HasSubstr("Unknown      the XDP program of 'uplink' was not looked at"))));
  EXPECT_THAT(RunLine("doctor -probe ports.probe"),
              Exits(0, Out(HasSubstr("WARN  ports.probe           the XDP program of 'uplink'"))));
  ReplaceFile("/run/over", "");
  EXPECT_EQ(loader.Wait().exit_code, 0);
  EXPECT_TRUE(Answers(kTcp));
  EXPECT_THAT(RunLine("inspect 8080"), Exits(0));
}

class ProbeWithoutBpf : public ProbeWorld {
 protected:
  [[nodiscard]] Outcome InspectWithout(const std::string& capabilities) {
    std::vector<std::string> argv = {"setpriv", Cat("--bounding-set=", capabilities)};
    for (const std::string& word : Line({"inspect", "8080"}).argv) {
      argv.push_back(word);
    }
    Command command = Line({"inspect", "8080"});
    command.argv = argv;
    return Execute(command);
  }
};

// As in a container that may not load programs: the facts remain, and what is not known is said.
TEST_F(ProbeWithoutBpf, ReportsWhatItCannotProbe) {
  ASSERT_THAT(RunLine("inspect 8080"), Exits(0));
  const Outcome without = InspectWithout("-bpf,-sys_admin");
  EXPECT_EQ(without.exit_code, 2) << without;
  EXPECT_THAT(without.out, HasSubstr("Unknown "));
  EXPECT_THAT(RunLine("inspect 8080 -no-probe"),
              Exits(0, Out(HasSubstr("nothing was sent, so not all rules and routes"))));
}

class DoctorProbe : public ProbeWorld {};

TEST_F(DoctorProbe, ReachesEveryPublishedPort) {
  EXPECT_THAT(
      RunLine("doctor -probe ports"),
      Exits(0, Out(HasSubstr("ok    ports.probe           5 of 5 published ports reached"))));
  EXPECT_THAT(RunLine("doctor ports").out, Not(HasSubstr("ports.probe")));
  host().Nft(
      "table ip mine { chain early { type filter hook prerouting priority raw; tcp dport 8080 "
      "drop; }; }");
  EXPECT_THAT(RunLine("doctor ports.blocked"), Exits(0)) << "is passive";
  EXPECT_THAT(RunLine("doctor -probe ports.probe"),
              Exits(1,
                    Out(AllOf(HasSubstr("FAIL  ports.probe"),
                              HasSubstr("tcp 8080 of allocation"),
                              HasSubstr("fix: nft insert rule ip mine early")))));
}

TEST_F(DoctorProbe, DoesNotBlameAPortWithoutAListener) {
  Attach(Publish({Port(9090, 90)}), As("idle", AddContainer("idle")));
  EXPECT_THAT(RunLine("doctor -probe ports.probe"), Exits(0));
}

class ThoroughDoctorProbe : public DoctorProbe {};

TEST_F(ThoroughDoctorProbe, EndsAfterAMinuteAndSaysWhatItLeftOut) {
  constexpr int kPorts = 4000;
  json ports;
  for (int i = 0; i < kPorts; ++i) {
    ports.push_back(Port(20000 + i, 80));
  }
  Node& many = AddContainer("many");
  Attach(Publish(ports), As("many", many));
  Serve(many, Protocol::kTcp, {"0.0.0.0"}, 80, "many");
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = RunLine("doctor -probe ports.probe");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(75));
  EXPECT_THAT(outcome, Exits(0, Out(HasSubstr(" of 4005 published ports were not probed"))));
}

}  // namespace
}  // namespace nomad_bridge::test
