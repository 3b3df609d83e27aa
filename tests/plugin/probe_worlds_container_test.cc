// What in the container keeps a published port from answering: rows as in probe_worlds_test.cc.
#include "tests/plugin/probe_world.h"

namespace nomad_bridge::test {
namespace {

class BrokenContainer : public ProbeWorld {};

TEST_P(BrokenContainer, IsNamedAndItsFixRepairsIt) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Every,
    BrokenContainer,
    ::testing::ValuesIn(std::vector<Broken>{
        {"ContainerDown", "ip link set eth0 down", "interface 'eth0' is down", kTcp, "nomad"},
        {"ContainerRoute",
         "ip route del default",
         "no default route for IPv4: answers find no way back",
         kTcp,
         "service"},
        {"ContainerAddress",
         "ip address flush dev eth0",
         "interface 'eth0' has lost ADDRESS",
         kTcp,
         "container"},
        {"ContainerInput",
         "nft 'table inet mine { chain i { type filter hook input priority 0; policy drop; iif lo "
         "accept; }; }'",
         "in the container, chain i of table inet mine (policy drop) drops packets for the port",
         kTcp,
         "container"},
        {"ContainerOutput",
         "iptables -A OUTPUT -p tcp --sport 80 -j DROP",
         "in the container, chain OUTPUT of table ip filter",
         kTcp,
         "answer"},
        {"ContainerMac",
         "ip link set eth0 down; ip link set eth0 address 02:00:00:00:00:77 up; ip route add "
         "default via 172.26.64.1",
         "02:00:00:00:00:77",
         kTcp,
         "nomad"},
        {"ContainerWrongGateway",
         "ip route replace default via 172.26.64.99",
         "its default route leads to 172.26.64.99, which is not there",
         kTcp,
         "answer"},
        {"ContainerVpn",
         "ip link add tun0 type veth peer name far; ip link set tun0 up; ip link set far up; ip "
         "address add 10.8.0.2/24 dev tun0; ip route add 0.0.0.0/1 via 10.8.0.1; ip route add "
         "128.0.0.0/1 via 10.8.0.1",
         "in the container what the port answers leaves by 'tun0', not by 'eth0'",
         kTcp,
         "answer"},
        {"ContainerRule",
         "ip rule add from ADDRESS prohibit priority 100",
         "in the container what the port answers does not get to 198.41.0.4: a route or rule there "
         "prohibits it",
         kTcp,
         "service",
         "ip rule show"},
        {"ContainerGatewaysNeighbour",
         "ip neigh replace 172.26.64.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
         "a permanent neighbour entry in the container has the gateway 172.26.64.1 at "
         "02:00:00:00:00:99",
         kTcp,
         "answer"},
        {"ContainerArpIgnore",
         "sysctl -w net.ipv4.conf.eth0.arp_ignore=8; ip -n host neigh flush dev nomad || true",
         "net/ipv4/conf/eth0/arp_ignore is 8",
         kTcp,
         "nomad"},
        {"ContainerServiceStopped",
         "kill -STOP $(ss -H -ltnp 'sport = :80' | sed 's/.*pid=\\([0-9]*\\).*/\\1/')",
         ", which listens on tcp/80, is stopped",
         kTcp,
         ""},
        {"ContainerRedirect",
         "nft 'table inet mine { chain p { type nat hook prerouting priority -100; tcp dport 80 "
         "redirect to :9; }; }'",
         "redirects to port 9, where nobody answers, packets for the port",
         kTcp,
         "service"},
        {"ContainerQueue",
         "tc qdisc add dev eth0 root blackhole",
         "'eth0' sends nothing: its queue is a blackhole",
         kTcp,
         "answer"},
        {"ContainerMtu",
         "ip link set eth0 mtu 4000",
         "the MTU of 'VETH' is 1500, that of its other end 'eth0' 4000: larger packets are lost",
         kLarge,
         ""},
    }),
    kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
