// 200 nodes of random configuration on which every published port answers: inspect and doctor find
// nothing there.
#include <random>

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

// What other programs do on a node without harm: run by sh on the host.
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
    "ip rule add from 198.51.100.1 lookup 200; ip route add default via 198.51.100.2 dev uplink "
    "table 200; ip route add blackhole default metric 9999 table 200; ip rule add from "
    "203.0.113.0/24 iif uplink prohibit",
    // the same as wg-quick has it
    "ip rule add not fwmark 51820 to 10.40.0.0/16 lookup 51820; ip rule add lookup main "
    "suppress_prefixlength 0; ip route add unreachable default table 51820",
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

// Inside a container.
const std::vector<std::string> kHarmlessInside = {
    "true",
    "nft 'table inet own { chain i { type filter hook input priority 0; policy drop; ct state "
    "established accept; iif lo accept; icmpv6 type nd-neighbor-solicit accept; meta l4proto "
    "icmpv6 accept; tcp dport 80 accept; }; }'",
    "iptables -A INPUT -p tcp --dport 22 -j REJECT; iptables -A OUTPUT -d 169.254.169.254 -j DROP",
};

class HealthyNode : public CliWorld, public ::testing::WithParamInterface<int> {
 protected:
  std::mt19937 random_{static_cast<std::uint32_t>(GetParam())};

  bool Maybe() { return random_() % 2 == 0; }
  const std::string& OneOf(const std::vector<std::string>& all) {
    return all.at(random_() % all.size());
  }

  json RandomConfig() {
    json config = Maybe() ? DualStack() : Config();
    for (const char* const key : {"ipMasq", "snat", "randomPorts"}) {
      if (Maybe()) {
        config[key] = true;
      }
    }
    config[Maybe() ? "hairpinMode" : "promiscMode"] = true;
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

  // Of inspect about each port, and of doctor.
  void ExpectNothingFound(const std::vector<int>& ports) {
    for (const int port : ports) {
      EXPECT_EQ(TcpText(outside(), kHostIp4, static_cast<std::uint16_t>(port)), "hello");
      EXPECT_THAT(Output(Cat("inspect ", port)), Not(HasSubstr("fix:")));
      EXPECT_THAT(Output(Cat("inspect ", port, " -from ", kOutsideIp4)), Not(HasSubstr("fix:")));
    }
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
  std::string foreign;
  for (int i = static_cast<int>(random_() % 4); i > 0; --i) {
    foreign = OneOf(kHarmless);
    // Twice is no more than once.
    static_cast<void>(host().Run({"sh", "-c", foreign}));
  }
  std::vector<int> ports;
  const std::vector<json> networks = RandomNetworks();
  for (int i = 0; i <= static_cast<int>(random_() % 3); ++i) {
    const std::string id = Cat("alloc-", i, "-0000");
    Node& node = i == 0 ? container() : AddContainer(Cat("c", i));
    ports.push_back(8000 + i);
    std::vector<json> mappings = {Port(8000 + i, 80)};
    if (Maybe()) {
      mappings.push_back(Port(8000 + i, 80, "udp"));
    }
    Attach(Publish(mappings, networks.at(random_() % networks.size())),
           As(id, node, NomadArgs("billing", id)));
    Serve(node, Protocol::kTcp, {Maybe() ? "0.0.0.0" : "::"}, 80, "hello");
    node.Shell(OneOf(kHarmlessInside));
  }
  if (Maybe()) {
    static_cast<void>(host().Run({"sh", "-c", OneOf(kHarmless)}));
  }
  ExpectNothingFound(ports);
}

INSTANTIATE_TEST_SUITE_P(Nodes, HealthyNode, ::testing::Range(0, 20));
INSTANTIATE_TEST_SUITE_P(ThoroughNodes, HealthyNode, ::testing::Range(20, 200));

}  // namespace
}  // namespace nomad_bridge::test
