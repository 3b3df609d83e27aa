// Frames of a container's interface that its namespace's IP stack does not get: a sandbox such as
// gVisor's runsc reads them by a packet socket, a virtual machine by a tap. doctor, inspect and
// CHECK accuse neither, and what only listens in, or lies beside, excuses nothing.
#include "tests/plugin/cli_world.h"
#include "tests/support/carrier.h"

namespace nomad_bridge::test {
namespace {

class Owners : public CliWorld {
 protected:
  void SetUp() override {
    config_ = Publish({Port(8080, 80), Port(8080, 80, "udp")}, DualStack());
    result_ = Attach(config_, Allocation());
    container().Must(Words("ip link set lo up"));
  }

  [[nodiscard]] Variables Allocation() {
    return As(kAllocation, container(), NomadArgs("billing", kAllocation));
  }

  [[nodiscard]] Outcome CheckNow() { return Check(config_, result_, Allocation()); }
  [[nodiscard]] Outcome DoctorNow() {
    return RunLine("doctor containers bridge.mac ports.blocked");
  }

  void Start(const std::string& program, const std::vector<std::string>& arguments = {}) {
    Command command = {.argv = {"nsenter", Cat("--net=", container().path()), "python3", "-c"}};
    command.argv.push_back(program);
    command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
    running_.push_back(Process::Start(command));
  }
  // A packet socket in the container that gets frames of this protocol and answers none. `link`:
  // "eth0", or "*" for all.
  void Listen(const std::string& protocol, const std::string& link) {
    Start(Cat("import socket, time\n",
              "s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(",
              protocol,
              "))\n",
              link == "*" ? "" : Format("s.bind(('{}', 0))\n", link),
              "time.sleep(1000)\n"));
    ASSERT_TRUE(Soon([&] {
      return container().Must(Words("ss -H0nl")).find(Cat(':', link, ' ')) != std::string::npos;
    }));
  }

  // The addresses and the service of the allocation, behind `end`: eth0 or a tap of the container.
  void StartMachine(const std::string& end) {
    Node& machine = AddContainer("machine");
    machine_ = &machine;
    machine.Must(Words("ip tuntap add eth0 mode tap vnet_hdr"));
    machine.Must({"ip", "link", "set", "eth0", "address", At(result_, "/interfaces/2/mac")});
    Start(kCarrier, {container().path(), end, machine.path(), "eth0"});
    machine.Must(Words("ip link set eth0 up"));
    machine.Must(Words("ip address add 172.26.64.2/20 dev eth0"));
    machine.Must(Words("ip address add fd00:26::2/64 dev eth0 nodad"));
    ASSERT_TRUE(Soon([&] { return LinkOn(machine, "eth0").at("operstate") == "UP"; }));
    machine.Must(Words("ip route add default via 172.26.64.1"));
    machine.Must(Words("ip -6 route add default via fd00:26::1"));
    Serve(machine, Protocol::kTcp, {"::"}, 80, "hello");
    ASSERT_TRUE(Soon([&] { return TcpText(outside(), kHostIp4, 8080) == "hello"; }));
    ASSERT_EQ(TcpText(outside(), kHostIp6, 8080), "hello");
  }

  void TakeAddresses() { container().Must(Words("ip address flush dev eth0")); }

  // As tc-redirect-tap does.
  void RedirectToTap() {
    container().Must(Words("ip tuntap add tap0 mode tap vnet_hdr"));
    container().Must(Words("ip link set tap0 up"));
    for (const auto& [from, to] : {std::pair{"eth0", "tap0"}, std::pair{"tap0", "eth0"}}) {
      container().Must(Words(Cat("tc qdisc add dev ", from, " ingress")));
      container().Must(
          Words(Format("tc filter add dev {} parent ffff: protocol all u32 match u32 "
                       "0 0 action mirred egress redirect dev {}",
                       from,
                       to)));
    }
  }

  // As QEMU's and KubeVirt's scripts do: the machine has the interface's MAC, that another one.
  void BridgeToTap() {
    container().Shell(
        "ip address flush dev eth0; ip link set eth0 address 02:00:00:00:00:77; "
        "ip tuntap add tap0 mode tap vnet_hdr; ip link add br0 type bridge; "
        "for link in eth0 tap0; do ip link set $link master br0; done; "
        "bridge link set dev eth0 learning off; "  // hairpin mode brings its own frames back
        "ip link set tap0 up; ip link set br0 up");
  }

  // A probe's datagram is taken off its way to the machine.
  void ExpectNobodyAccused(const std::string& reader) {
    const std::string received = DatagramsOfMachine();
    EXPECT_THAT(
        RunLine("inspect 8080"),
        Exits(0, Out(::testing::ContainsRegex(Cat("Note .*the frames of 'eth0' go to ", reader)))));
    EXPECT_THAT(RunLine("doctor ports.probe"),
                Exits(0, Out(HasSubstr("4 of 4 published ports reached"))));
    EXPECT_THAT(DoctorNow(), Exits(0, Out(HasSubstr("0 failures, 0 warnings, 3 ok\n"))));
    EXPECT_THAT(CheckNow(), Exits(0, Out(""), Err("")));
    EXPECT_EQ(DatagramsOfMachine(), received);
  }

  [[nodiscard]] std::string DatagramsOfMachine() const {
    return machine_->Must({"grep", "-h", "^Udp", "/proc/net/snmp", "/proc/net/snmp6"});
  }

  json config_;
  json result_;
  Node* machine_ = nullptr;
  std::vector<Process> running_;
};

TEST_F(Owners, SandboxMayHaveTheAddresses) {
  TakeAddresses();
  StartMachine("eth0");
  ExpectNobodyAccused("a packet socket of process [0-9]+ 'python3': its listeners cannot be seen");
}

TEST_F(Owners, VirtualMachineMayHaveTheListeners) {
  RedirectToTap();
  StartMachine("tap0");
  ExpectNobodyAccused("tap 'tap0': its listeners cannot be seen");
}

TEST_F(Owners, VirtualMachineMayHaveTheAddresses) {
  TakeAddresses();
  RedirectToTap();
  StartMachine("tap0");
  ExpectNobodyAccused("tap 'tap0': its listeners cannot be seen");
}

TEST_F(Owners, VirtualMachineMayBeBesideTheInterfaceInABridge) {
  BridgeToTap();
  StartMachine("tap0");
  ExpectNobodyAccused("tap 'tap0': its listeners cannot be seen");
}

// One that sends by the network of others, say.
TEST_F(Owners, TapInAnotherBridgeTakesNothing) {
  container().Shell(
      "ip tuntap add tap0 mode tap; ip link add br0 type bridge; ip link set tap0 master br0");
  EXPECT_THAT(RunLine("inspect 8080"), Exits(1, Out(HasSubstr("no listener on tcp/80"))));
}

// Whether it means to answer cannot be told from here.
TEST_F(Owners, SilentVirtualMachineIsNoFaultOfTheNode) {
  RedirectToTap();
  EXPECT_THAT(RunLine(Cat("inspect 8080 -from ", kOutsideIp4)),
              Exits(1,
                    Out(AllOf(HasSubstr("nomad X  container"),  // no neighbour takes it
                              HasSubstr("its listeners cannot be seen from here"),
                              HasSubstr("advice: look there why it does not answer"),
                              Not(HasSubstr("no listener")),
                              Not(HasSubstr("fix:"))))));
  EXPECT_THAT(RunLine("doctor containers ports.blocked ports.probe"), Exits(0));
}

// What CHECK refuses still has no word about the addresses.
TEST_F(Owners, SandboxIsNotBlamedBesideAnotherMismatch) {
  TakeAddresses();
  Listen("3", "eth0");
  container().Must(Words("ip link set lo down"));
  EXPECT_THAT(CheckNow(), Fails(103, Details("interface 'lo' is down")));
}

TEST_F(Owners, SnifferExcusesOnlyAMissingAddress) {
  Listen("3", "eth0");
  container().Must(Words("ip route delete default"));
  EXPECT_THAT(DoctorNow(), Exits(1, Out(HasSubstr("no default route for IPv4"))));
  EXPECT_THAT(CheckNow(), Fails(103, Details(HasSubstr("route to 0.0.0.0/0"))));
  EXPECT_THAT(RunLine("inspect 8080"), Exits(1, Out(HasSubstr("no listener on tcp/80"))));
}

TEST_F(Owners, SnifferOfAllInterfacesIsNoSandbox) {
  Listen("3", "*");
  TakeAddresses();
  EXPECT_THAT(DoctorNow(), Exits(1, Out(HasSubstr("'eth0' has lost 172.26.64.2"))));
  EXPECT_THAT(CheckNow(), Fails(103, Details(HasSubstr("'eth0' has lost 172.26.64.2"))));
}

// A client of DHCP, for example.
TEST_F(Owners, ReaderOfOneProtocolIsNoSandbox) {
  Listen("0x800", "eth0");
  TakeAddresses();
  EXPECT_THAT(DoctorNow(), Exits(1, Out(HasSubstr("'eth0' has lost 172.26.64.2"))));
  EXPECT_THAT(CheckNow(), Fails(103, Details(HasSubstr("'eth0' has lost 172.26.64.2"))));
}

// Such as a VPN has, beside a limit of what comes in.
TEST_F(Owners, TunIsNoVirtualMachine) {
  container().Must(Words("ip tuntap add tun0 mode tun"));
  container().Must(Words("tc qdisc add dev eth0 ingress"));
  container().Shell("tc filter add dev eth0 ingress protocol ip bpf bytecode '1,6 0 0 0,'");
  EXPECT_THAT(RunLine("inspect 8080"), Exits(1, Out(HasSubstr("no listener on tcp/80"))));
}

TEST_F(Owners, TapWithoutAFilterTakesNothing) {
  container().Must(Words("ip tuntap add tap0 mode tap"));
  EXPECT_THAT(RunLine("inspect 8080"), Exits(1, Out(HasSubstr("no listener on tcp/80"))));
}

}  // namespace
}  // namespace nomad_bridge::test
