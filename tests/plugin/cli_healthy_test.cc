// 200 nodes of random configuration on which every published port answers: inspect, doctor, up and
// reconcile find nothing there.
#include <random>

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

// What other programs do on a node without harm: run by sh on the host. UPLINK is the interface
// with the node's address: "uplink", or a bridge that has it as a port.
// NOLINTBEGIN(bugprone-suspicious-missing-comma): most are of several lines
const std::vector<std::string> kHarmless = {
    // Docker
    "iptables -P FORWARD DROP; iptables -N DOCKER-USER; iptables -A FORWARD -j DOCKER-USER; "
    "iptables -A DOCKER-USER -j RETURN; iptables -A FORWARD -o docker0 -m conntrack --ctstate "
    "RELATED,ESTABLISHED -j ACCEPT; iptables -t nat -N DOCKER; iptables -t nat -A PREROUTING -m "
    "addrtype --dst-type LOCAL -j DOCKER; iptables -t nat -A DOCKER ! -i docker0 -p tcp --dport "
    "9000 -j DNAT --to-destination 172.17.0.2:9000",
    "iptables -t raw -A PREROUTING -d 172.17.0.2/32 ! -i docker0 -j DROP",
    // a firewall of the node itself
    "nft 'table inet host { chain in { type filter hook input priority 0; policy drop; ct state "
    "established,related accept; iif lo accept; icmpv6 type { nd-neighbor-solicit, "
    "nd-neighbor-advert } accept; tcp dport { 22, 4646-4648 } accept; }; }'",
    // who tried too many passwords
    "nft 'table inet f2b { set bad { type ipv4_addr; elements = { 192.0.2.7, 203.0.113.9 }; }; "
    "chain in { type filter hook prerouting priority -150; ip saddr @bad drop; tcp dport 22 ip "
    "saddr @bad reject; }; }'",
    "nft 'table ip geo { set far { type ipv4_addr; flags interval; elements = { 203.0.113.0/24, "
    "192.0.2.0-192.0.2.99 }; }; chain early { type filter hook prerouting priority raw; ip saddr "
    "@far counter drop; }; }'",
    "nft 'table inet rpf { chain p { type filter hook prerouting priority raw; fib saddr . iif oif "
    "missing drop; }; }'",
    // by which neighbours find each other, as far as they have to
    "nft 'table inet strict { chain in { type filter hook input priority 10; policy drop; ct state "
    "established,related accept; iif lo accept; icmpv6 type { nd-neighbor-solicit, "
    "nd-neighbor-advert } ip6 hoplimit 255 accept; }; chain o { type filter hook output priority "
    "0; "
    "icmpv6 type nd-redirect drop; }; }'",
    "ip6tables -A INPUT -p icmpv6 --icmpv6-type neighbour-solicitation -m hl --hl-eq 255 -j "
    "ACCEPT; "
    "ip6tables -A INPUT -p icmpv6 --icmpv6-type neighbour-advertisement -m hl --hl-eq 255 -j "
    "ACCEPT; ip6tables -A INPUT -m conntrack --ctstate INVALID -j DROP; ip6tables -P INPUT DROP",
    "nft 'table arp guard { chain in { type filter hook input priority 0; policy drop; arp "
    "operation "
    "{ request, reply } accept; }; chain o { type filter hook output priority 0; arp saddr ip "
    "192.0.2.10 drop; }; }'",
    "nft 'table bridge known { chain p { type filter hook prerouting priority 0; policy drop; meta "
    "protocol { ip, ip6, arp } accept; }; chain o { type filter hook output priority 0; meta "
    "l4proto "
    "!= { tcp, udp, icmp, icmpv6 } drop; arp operation reply arp saddr ip 192.0.2.1 drop; }; }'",
    // a program that looks into packets, and does not run; links of a group that is none here
    "iptables -I FORWARD -p tcp -j NFQUEUE --queue-num 7 --queue-bypass",
    "ip link set uplink group 5; nft 'table inet groups { chain f { type filter hook forward "
    "priority 0; iifgroup { 6, 7 } drop; oifgroup 5 iifgroup 8 drop; }; }'",
    // load
    "iptables -I FORWARD -p tcp -m hashlimit --hashlimit-above 9000/sec --hashlimit-name a -j DROP",
    "nft 'table inet flood { chain f { type filter hook forward priority -5; ct state new limit "
    "rate over 10000/second drop; tcp flags & (fin|syn) == (fin|syn) drop; }; }'",
    "iptables -t mangle -A PREROUTING -m limit --limit 3/minute -j LOG; iptables -t mangle -A "
    "PREROUTING -p tcp --dport 25 -j DROP",
    "iptables -t mangle -A PREROUTING -i uplink -j MARK --set-mark 0x20; ip rule add fwmark "
    "0x40 lookup 100 priority 500",
    "iptables -t raw -A PREROUTING -p udp --dport 53 -j CT --notrack; iptables -t raw -A "
    "PREROUTING -p tcp -m multiport --dports 135,137:139,445 -j DROP",
    "nft 'table inet web { chain p { type nat hook prerouting priority -120; tcp dport 443 "
    "redirect to :8443; }; }'",
    "nft 'table bridge quiet { chain f { type filter hook forward priority 0; ether type 0x88cc "
    "drop; }; chain o { type filter hook output priority 0; ip daddr 192.0.2.1 drop; }; }'",
    "nft 'table netdev edge { chain i { type filter hook ingress device uplink priority 0; ip "
    "frag-off & 0x1fff != 0 counter drop; ip saddr 127.0.0.0/8 drop; udp dport { 111, 389 } drop; "
    "}; }'",
    "nft 'table inet early { chain f { type filter hook forward priority -10; policy drop; ct "
    "state vmap { established : accept, related : accept }; iifname vmap { \"nomad\" : accept, "
    "\"br-other\" : accept }; oifname { \"nomad\", \"br-other\" } accept; }; }'",
    "nft 'table inet late { chain f { type filter hook forward priority 20; policy drop; jump ok; "
    "}; chain ok { meta mark and 0x1000 == 0x1000 accept; }; }'",
    "ip route add blackhole 10.99.0.0/16; ip route add unreachable 10.98.0.0/16; ip rule add to "
    "10.97.0.0/16 prohibit",
    "sysctl -qw net.ipv4.conf.all.rp_filter=1",
    "ip link add spare type veth peer name far; ip address add 192.0.2.129/25 dev spare",
    // a network of administrators, to which there is a way of its own
    "sysctl -qw net.ipv4.conf.all.rp_filter=1; ip link add admin type veth peer name desk; ip link "
    "set desk up; ip link set admin up; ip address add 10.50.0.1/24 dev admin; ip route add "
    "10.60.0.0/16 via 10.50.0.2",
    // policy routing: a table for what the node itself sends, with nothing behind it
    "ip rule add from 198.51.100.1 lookup 200; ip route add default via 198.51.100.2 dev $UPLINK "
    "table 200; ip route add blackhole default metric 9999 table 200; ip rule add from "
    "203.0.113.0/24 iif uplink prohibit",
    // the same as wg-quick has it
    "ip rule add not fwmark 51820 to 10.40.0.0/16 lookup 51820; ip rule add lookup main "
    "suppress_prefixlength 0; ip route add unreachable default table 51820",
    // links that nobody uses: without a cable, switched off, of a VPN that does not run
    "ip link add nocable type veth peer name cable; ip link set nocable up; ip address add "
    "10.70.0.1/24 dev nocable; ip link add off type veth peer name other-end; ip tuntap add mode "
    "tun "
    "name tun0; ip link set tun0 up; ip address add 10.71.0.1/32 dev tun0",
    "ip link add nocable type veth peer name cable; ip link set nocable up; [ -z \"$(ip route show "
    "default)\" ] || ip route add default dev nocable metric 9000; ip link add br-idle type "
    "bridge; ip link set br-idle up; ip address "
    "add 10.72.0.1/24 dev br-idle",
    // what is not in force, and what sees no packet to a published port as it was sent
    "nft 'table inet asleep { flags dormant; chain f { type filter hook forward priority 0; policy "
    "drop; }; chain p { type filter hook prerouting priority raw; policy drop; }; }'",
    "nft 'table inet behind { chain p { type filter hook prerouting priority 0; tcp dport "
    "8000-8010 "
    "drop; }; chain o { type filter hook postrouting priority 0; tcp sport 8000-8010 drop; }; "
    "chain "
    "l { type filter hook postrouting priority 200; iifname nomad tcp sport 80 drop; }; }'",
    "nft 'table netdev out { chain e { type filter hook egress device uplink priority 0; tcp sport "
    "80 "
    "drop; ip saddr 172.26.64.0/20 drop; }; }'",
};
// NOLINTEND(bugprone-suspicious-missing-comma)

// The uplink becomes a port of a bridge, which has its addresses and routes from then on.
constexpr const char* kBridgeTheUplink =
    "ip link add lan type bridge; sysctl -qw net.ipv6.conf.lan.accept_dad=0; ip link set lan up; "
    "ip "
    "address flush dev uplink scope global; ip link set uplink master lan; ip address add "
    "198.51.100.1/24 dev lan; ip address add 2001:db8:100::1/64 dev lan nodad; ip route replace "
    "default via 198.51.100.2; ip -6 route replace default via 2001:db8:100::2";

// A second way out. What comes from its address leaves by it.
constexpr const char* kSecondNodeIp4 = "203.0.114.1";
constexpr const char* kSecondOutsideIp4 = "203.0.114.2";
constexpr const char* kAddSecondUplink =
    "ip link add second type veth peer name second netns outside; ip address add 203.0.114.1/24 "
    "dev "
    "second; ip link set second up; ip -n outside address add 203.0.114.2/24 dev second; ip -n "
    "outside link set second up; ip route add 203.0.114.0/24 dev second table 114; ip route add "
    "default via 203.0.114.2 table 114; ip rule add from 203.0.114.1 lookup 114 priority 300; ip "
    "rule add fwmark 0x114 lookup 114 priority 301";

// A node that reaches only its own LAN, with an interface that is switched off.
constexpr const char* kLeaveNoWayBeyond =
    "ip route del default; ip -6 route del default; ip link add unused type veth peer name none; "
    "ip "
    "address add 10.73.0.1/24 dev unused";

// The rules, routes and chains of tailscaled, with a subnet behind another machine of its network.
constexpr const char* kAddTailscale =
    "ip link add tailscale0 type veth peer name tailnet; ip link set tailnet up; ip link set "
    "tailscale0 up; ip address add 100.101.102.103/32 dev tailscale0; ip route add 100.100.100.100 "
    "dev tailscale0 table 52; ip route add 100.64.7.8 dev tailscale0 table 52; ip route add "
    "10.80.0.0/16 dev tailscale0 table 52; ip -6 route add fd7a:115c:a1e0::/48 dev tailscale0 "
    "table "
    "52; for v in 4 6; do ip -$v rule add fwmark 0x80000/0xff0000 lookup main priority 5210; ip "
    "-$v "
    "rule add fwmark 0x80000/0xff0000 lookup default priority 5230; ip -$v rule add fwmark "
    "0x80000/0xff0000 unreachable priority 5250; ip -$v rule add lookup 52 priority 5270; done; "
    "iptables -N ts-input; iptables -A ts-input -s 100.101.102.103/32 -i lo -j ACCEPT; iptables -A "
    "ts-input -s 100.115.92.0/23 ! -i tailscale0 -j RETURN; iptables -A ts-input -s 100.64.0.0/10 "
    "! "
    "-i tailscale0 -j DROP; iptables -A ts-input -i tailscale0 -j ACCEPT; iptables -I INPUT -j "
    "ts-input; iptables -N ts-forward; iptables -A ts-forward -i tailscale0 -j MARK --set-xmark "
    "0x40000/0xff0000; iptables -A ts-forward -m mark --mark 0x40000/0xff0000 -j ACCEPT; iptables "
    "-A ts-forward -s 100.64.0.0/10 -o tailscale0 -j DROP; iptables -A ts-forward -o tailscale0 -j "
    "ACCEPT; iptables -I FORWARD -j ts-forward; iptables -t nat -N ts-postrouting; iptables -t nat "
    "-A ts-postrouting -m mark --mark 0x40000/0xff0000 -j MASQUERADE; iptables -t nat -I "
    "POSTROUTING "
    "-j ts-postrouting";

// Inside a container.
const std::vector<std::string> kHarmlessInside = {
    "true",
    "nft 'table inet own { chain i { type filter hook input priority 0; policy drop; ct state "
    "established accept; iif lo accept; icmpv6 type nd-neighbor-solicit accept; meta l4proto "
    "icmpv6 accept; tcp dport 80 accept; }; }'",
    "iptables -A INPUT -p tcp --dport 22 -j REJECT; iptables -A OUTPUT -d 169.254.169.254 -j DROP",
};

constexpr int kEveryday = 20;  // the nodes of the everyday suite, without a running firewall
constexpr int kAll = 200;

class HealthyNode : public CliWorld, public ::testing::WithParamInterface<int> {
 protected:
  static constexpr const char* kConfigs = "/run/configs";

  std::mt19937 random_{static_cast<std::uint32_t>(GetParam())};
  std::string uplink_ = "uplink";
  std::string firewall_ = "none";
  bool has_second_uplink_ = false;
  std::string drawn_;  // for people, if the test fails

  bool Maybe() { return random_() % 2 == 0; }
  const std::string& OneOf(const std::vector<std::string>& all) {
    const std::string& one = all.at(random_() % all.size());
    drawn_ += Cat(one, '\n');
    return one;
  }
  void Draw(const char* script) {
    drawn_ += Cat(script, '\n');
    host().Shell(script);
  }

  json RandomConfig() {
    json config = Maybe() ? DualStack() : Config();
    for (const char* const key : {"ipMasq", "snat", "randomPorts"}) {
      if (Maybe()) {
        config[key] = true;
      }
    }
    // Since Linux 6.8, a promiscuous bridge with br_netfilter hands neighbour solicitations up
    // without a conntrack state: firewalls drop them as invalid.
    config[Maybe() || firewall_ != "none" ? "hairpinMode" : "promiscMode"] = true;
    if (Maybe()) {
      config["ingressPolicy"] = Maybe() ? "same-bridge" : "isolated";
    }
    if (Maybe()) {
      config["inbound"] = "published";
    }
    if (Maybe()) {
      config["mtu"] = 1400;
    }
    return config;
  }

  // Two on every second node, each on a bridge of its own.
  std::vector<json> RandomNetworks() {
    std::vector<json> networks = {RandomConfig()};
    if (Maybe()) {
      json other = RandomConfig();
      other.update(kOther);
      networks.push_back(std::move(other));
    }
    return networks;
  }

  void DrawWaysOut() {
    if (Maybe()) {
      Draw(kBridgeTheUplink);
      uplink_ = "lan";
    }
    has_second_uplink_ = Maybe();
    if (has_second_uplink_) {
      Draw(kAddSecondUplink);
    }
    if (Maybe()) {
      Draw(kAddTailscale);
    }
    if (random_() % 4 == 0) {
      Draw(kLeaveNoWayBeyond);
    }
  }

  // Twice is no more than once.
  void DrawHarmless() {
    static_cast<void>(host().Run({"env", Cat("UPLINK=", uplink_), "sh", "-c", OneOf(kHarmless)}));
  }

  void DrawFirewall() {
    if (GetParam() >= kEveryday) {
      firewall_ = OneOf({"none", "docker", "ufw", "firewalld"});
    }
  }

  struct Published {
    int port = 0;
    bool has_ipv6 = false;
  };
  void ExpectNothingFoundAbout(int port, const char* node, const char* client) {
    EXPECT_EQ(TcpText(outside(), node, static_cast<std::uint16_t>(port)), "hello") << node;
    EXPECT_THAT(Output(Cat("inspect ", port, " -from ", client)), Not(HasSubstr("fix:")));
  }

  void ExpectNetworkWorks(json plugin) {
    const json name = plugin.at("name");
    plugin["capabilities"] = {{"portMappings", true}};
    plugin.erase("name");
    plugin.erase("cniVersion");
    ReplaceFile("/run/network.conflist",
                json({{"cniVersion", "1.0.0"}, {"name", name}, {"plugins", {plugin}}}).dump());
    const Outcome outcome = RunLine("test -json /run/network.conflist");
    ASSERT_TRUE(outcome.json.contains("checks")) << outcome;
    for (const json& check : outcome.json.at("checks")) {
      if (check.at("verdict") == "fail" && check.at("family") == 4) {
        EXPECT_TRUE(IsClosedInFact(check.at("check"))) << check;
      } else {
        EXPECT_NE(check.at("verdict"), "fail") << check;
      }
    }
  }

  // Some of these nodes send what comes from an address of their own elsewhere: allocations do not
  // reach services of the node there, nor the node its own published ports.
  [[nodiscard]] bool IsClosedInFact(const std::string& check) {
    constexpr std::uint16_t kPort = 7777;
    std::vector<std::string> addresses = {kHostIp4};
    if (has_second_uplink_) {
      addresses.emplace_back(kSecondNodeIp4);
    }
    return std::ranges::any_of(addresses, [&](const std::string& address) {
      if (check == "port.node") {
        return TcpText(host(), address, 8000).empty();
      }
      const Server service = Server::Start(host(), Protocol::kTcp, address, kPort, "service");
      return check.starts_with("node") && TcpText(container(), address, kPort).empty();
    });
  }

  const std::string resolv_conf_ = [] {
    std::ofstream("/run/resolv.conf") << "nameserver " << kOutsideIp4 << '\n';
    return "/run/resolv.conf";
  }();
  Mounted resolv_{{"--bind", resolv_conf_}, "/etc/resolv.conf"};

  // Of inspect about each port, of doctor, up and reconcile.
  void ExpectNothingFound(const std::vector<Published>& ports) {
    for (const auto& [port, has_ipv6] : ports) {
      ExpectNothingFoundAbout(port, kHostIp4, kOutsideIp4);
      if (has_second_uplink_) {
        ExpectNothingFoundAbout(port, kSecondNodeIp4, kSecondOutsideIp4);
      }
      if (has_ipv6) {
        ExpectNothingFoundAbout(port, kHostIp6, kOutsideIp6);
      }
      EXPECT_THAT(Output(Cat("inspect ", port)), Not(HasSubstr("fix:")));
    }
    EXPECT_THAT(RunLine("reconcile"), Exits(0, Out(HasSubstr("nothing to repair")), Err("")));
    EXPECT_THAT(RunLine(Cat("up ", kConfigs)), Exits(0, Err("")));
    // A port that answers the world is meant to.
    const json doctor = RunLine("doctor -json").json;
    for (const json& check : doctor.at("checks")) {
      const bool is_told =
          check.at("check") == "ports.world" || check.at("check") == "plugins.missing";
      EXPECT_TRUE(is_told || check.at("verdict") == "ok") << check;
    }
  }
};

TEST_P(HealthyNode, HasNoFindings) {
  DrawWaysOut();
  DrawFirewall();
  // firewalld would need a reconcile then, which the units run.
  const bool starts_last = firewall_ != "firewalld" && Maybe();
  if (!starts_last) {
    StartFirewall(firewall_);
  }
  for (int i = static_cast<int>(random_() % 4); i > 0; --i) {
    DrawHarmless();
  }
  std::vector<Published> ports;
  const std::vector<json> networks = RandomNetworks();
  fs::create_directories(kConfigs);
  for (const json& network : networks) {
    std::ofstream(Cat(kConfigs, '/', network.at("name").get<std::string>(), ".conf")) << network;
  }
  // As at boot. A later one has nothing to say.
  EXPECT_THAT(RunLine(Cat("up ", kConfigs)), Exits(0));
  for (int i = 0; i <= static_cast<int>(random_() % 3); ++i) {
    const std::string id = Cat("alloc-", i, "-0000");
    Node& node = i == 0 ? container() : AddContainer(Cat("c", i));
    const json& network = networks.at(random_() % networks.size());
    std::vector<json> mappings = {Port(8000 + i, 80)};
    if (Maybe()) {
      mappings.push_back(Port(8000 + i, 80, "udp"));
    }
    const json result = Attach(Publish(mappings, network), As(id, node, NomadArgs("billing", id)));
    const bool has_ipv6 = AddressesIn(result).size() > 1;
    ports.push_back({.port = 8000 + i, .has_ipv6 = has_ipv6});
    Serve(node, Protocol::kTcp, {has_ipv6 || Maybe() ? "::" : "0.0.0.0"}, 80, "hello");
    node.Shell(OneOf(kHarmlessInside));
  }
  if (starts_last) {
    StartFirewall(firewall_);
  }
  if (Maybe()) {
    DrawHarmless();
  }
  SCOPED_TRACE(drawn_);
  ExpectNothingFound(ports);
  for (const json& network : networks) {
    ExpectNetworkWorks(network);
  }
}

INSTANTIATE_TEST_SUITE_P(Nodes, HealthyNode, ::testing::Range(0, kEveryday));
INSTANTIATE_TEST_SUITE_P(ThoroughNodes, HealthyNode, ::testing::Range(kEveryday, kAll));

}  // namespace
}  // namespace nomad_bridge::test
