// What a container sends while its ADD or its DEL is at work: from its first frame to its last one
// it is checked, by sourceCheck and by policies.
#include "tests/plugin/policy_world.h"
#include "tests/support/frames.h"

namespace nomad_bridge::test {
namespace {

// Sets eth0 up as soon as it is there, and sends the frames over and over, until /run/over exists.
constexpr const char* kFlood = R"(
import fcntl, os, socket, struct, sys
frames = [bytes.fromhex(each) for each in sys.argv[1:]]
control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender = None
sent = 0
open('/run/begun', 'w')
while not os.path.exists('/run/over'):
    try:
        if sender is None:
            link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            link.bind(('eth0', 0))
            flags = struct.unpack('16sh', fcntl.ioctl(control, 0x8913, struct.pack('16sh', b'eth0', 0)))[1]
            fcntl.ioctl(control, 0x8914, struct.pack('16sh', b'eth0', flags | 1))
            sender = link
        for frame in frames:
            sender.send(frame)
            sent += 1
            if sent == 1: open('/run/sent', 'w')
    except OSError:
        sender = None
print(sent)
)";

std::string Hex(const Bytes& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte / kDigits.size()];
    text += kDigits[byte % kDigits.size()];
  }
  return text;
}

// A neighbour and the node listen; the sender's namespace may send to nobody.
class PolicyWindow : public PolicyWorld, public ::testing::WithParamInterface<const char*> {
 protected:
  PolicyWindow() {
    SetBridgeNf(GetParam());
    for (const std::string link : {"all", "default"}) {
      host().SetSysctl(Cat("net/ipv4/conf/", link, "/rp_filter"), "0");
    }
    Apply({{{"name", "mute"},
            {"from", {{"namespace", "dev"}}},
            {"allow", {{{"to", {"198.51.100.77"}}}}}}});
    neighbour_ = &Start("prod", "api");  // 172.26.64.2, fd00:26::2
    sender_ = &AddContainer("sender");   // 172.26.64.3, fd00:26::3
    for (const Node* const node : {&host(), neighbour_}) {
      for (const char* const any : {"0.0.0.0", "::"}) {
        servers_.push_back(Server::Start(*node, Protocol::kUdp, any, 9000, "heard"));
      }
    }
  }

  [[nodiscard]] Variables OfSender() const {
    return As("sender", *sender_, LabelsOf("dev", "etl"));
  }

  Outcome OfList(const std::string& name, const std::string& verb, const json& config) {
    return MustRunAs(name, verb, config, OfSender());
  }
  void StartFlood() {
    fs::remove("/run/begun");
    fs::remove("/run/sent");
    fs::remove("/run/over");
    const Mac own = Mac::For(Ip::Parse("172.26.64.3").value());
    std::vector<std::string> argv = {"python3", "-c", kFlood};
    for (const char* const from : {"172.26.64.3", "172.26.64.99", "fd00:26::3", "fd00:26::99"}) {
      const bool is_ipv4 = std::string_view(from).find(':') == std::string_view::npos;
      for (const auto& [mac, to] :
           {std::pair(MacOf(host(), "nomad"), is_ipv4 ? kBridgeIp4 : kBridgeIp6),
            std::pair(MacOf(*neighbour_, "eth0"), is_ipv4 ? "172.26.64.2" : "fd00:26::2")}) {
        argv.push_back(Hex(UdpFrame({.to = mac, .from = own}, {.from = from, .to = to})));
      }
    }
    flood_.emplace(
        Process::Start({.argv = std::move(argv), .in_child = [this] { sender_->Enter(); }}));
    EXPECT_TRUE(Soon([] { return FindStatus("/run/begun").has_value(); }));
  }
  // Of an attachment that is there.
  void StartFloodAndAwaitIt() {
    StartFlood();
    EXPECT_TRUE(Soon([] { return FindStatus("/run/sent").has_value(); }));
  }
  void ExpectNothingHeard() {
    ReplaceFile("/run/over", "");
    const Outcome sent = flood_->Wait();
    EXPECT_GT(std::stoi(sent.out), 0) << sent;
    for (Server& server : servers_) {
      EXPECT_THAT(server.Heard(), IsEmpty());
    }
  }

 private:
  Node* neighbour_ = nullptr;
  Node* sender_ = nullptr;
  std::vector<Server> servers_;
  std::optional<Process> flood_;
};

const json kChecked = DualStack({{"sourceCheck", true}});

TEST_P(PolicyWindow, NothingPassesDuringAnAddWithDuplicateAddressDetection) {
  const json config = DualStack({{"sourceCheck", true}, {"enabledad", true}});
  StartFlood();
  Attach(config, OfSender());
  ExpectNothingHeard();
}

TEST_P(PolicyWindow, NothingPassesDuringAnAddThatAsksAnotherIpamPlugin) {
  EnsureDirectory("/run/ipam");
  WriteProgram("/run/ipam/slow", R"sh(#!/bin/sh
sleep 0.5
[ "$CNI_COMMAND" != ADD ] || echo '{"cniVersion":"1.0.0","ips":[{"address":"172.26.64.3/20"}]}'
)sh");
  json config = kChecked;
  config["ipam"] = {{"type", "slow"}};
  Variables variables = OfSender();
  variables["CNI_PATH"] = "/run/ipam";
  variables["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin";
  StartFlood();
  Attach(config, variables);
  Detach(config, variables);
  ExpectNothingHeard();
}

TEST_P(PolicyWindow, NothingPassesDuringADel) {
  for (int round = 0; round < 5; ++round) {
    Attach(kChecked, OfSender());
    StartFloodAndAwaitIt();
    Detach(kChecked, OfSender());
    ExpectNothingHeard();
  }
}

// The five names: the rules of forwarding go before the bridge's DEL.
TEST_P(PolicyWindow, NothingPassesBetweenTheDelsOfAList) {
  json bridge = kChecked;
  bridge.merge_patch({{"type", "bridge"},
                      {"bridge", "nomad"},
                      {"isGateway", true},
                      {"ipam", {{"type", "host-local"}}}});
  const json result = json::parse(OfList("bridge", "ADD", bridge).out);
  const json firewall = {
      {"cniVersion", "1.0.0"}, {"name", "nomad"}, {"type", "firewall"}, {"prevResult", result}};
  OfList("firewall", "ADD", firewall);
  StartFloodAndAwaitIt();
  OfList("firewall", "DEL", firewall);
  OfList("bridge", "DEL", bridge);
  ExpectNothingHeard();
}

INSTANTIATE_TEST_SUITE_P(BridgeNf, PolicyWindow, ::testing::Values("0", "1"));

}  // namespace
}  // namespace nomad_bridge::test
