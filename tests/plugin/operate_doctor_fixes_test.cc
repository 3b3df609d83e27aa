// Each check of doctor, and what breaks it: a table. The check finds the very thing it is for and
// says what to type, which heals it.
#include <regex>

#include <sys/mount.h>

#include "tests/plugin/doctor_world.h"

namespace nomad_bridge::test {
namespace {

// A name and what sh does on the host; the verdict of the check, its id, and what is said. Then the
// fix, which is pasted and heals it; or one that this machine cannot run (type), or words (advice).
// VETH is the host's end of the first container's pair, INDEX that of the bridge, BIN the program.
constexpr const char* kDamages = R"(
Bridge $ ip link set $VETH nomaster
fail bridge.ports: is no port of bridge 'nomad'
fix: nomad-bridge reconcile

LostLink $ ip link delete $VETH
fail bridge.ports: is missing, and the container's interface with it
fix: nomad alloc stop alloc-1

RenamedBridge $ ip link set nomad down; ip link set nomad name old; ip link set old up
fail bridge.intact: bridge 'nomad' is missing, and its address 172.26.64.1/20 is on 'old'
fix: ip link set old down && ip link set old name nomad && nomad-bridge reconcile

Mac $ ip -n container link set eth0 address 02:00:00:00:00:77
fail bridge.mac: interface 'eth0' has the MAC 02:00:00:00:00:77, and sourceCheck drops
fix: ip link set eth0 address 

ContainerRoute $ ip -n container route delete default; ip -n container route delete default
fail containers: allocation 'alloc-1' (web/api): no default route for IPv4
fix: nsenter --net=/run/netns/container ip route add default via 172.26.64.1

Conntrack $ mount -t tmpfs tmpfs /proc/sys/net/netfilter
echo 99 >/proc/sys/net/netfilter/nf_conntrack_count; echo 100 >/proc/sys/net/netfilter/nf_conntrack_max
warn conntrack.full: 99 of 100 connections: new ones are dropped when it is full
fix: sysctl -w net/netfilter/nf_conntrack_max=200

Forwarding $ sysctl -qw net.ipv4.ip_forward=0
fail sysctl.ip_forward: net/ipv4/ip_forward is 0
fix: nomad-bridge reconcile

ReversePath $ sysctl -qw net.ipv4.conf.nomad.rp_filter=1
warn sysctl.rp_filter: rp_filter of 'nomad' is strict
fix: sysctl -w net/ipv4/conf/nomad/rp_filter=2

Advertisements $ sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.uplink.accept_ra=1
ip -6 address add 2001:db8:7::7/64 dev uplink nodad valid_lft 3600 preferred_lft 3600
warn sysctl.accept_ra: 'uplink' takes no router advertisements
fix: sysctl -w net/ipv6/conf/uplink/accept_ra=2

RouteLocalnet $ sysctl -qw net.ipv4.conf.nomad.route_localnet=0
fail sysctl.route_localnet: net/ipv4/conf/nomad/route_localnet is 0
fix: nomad-bridge reconcile

Table $ nft flush chain inet nomad-bridge postrouting
fail table.intact: postrouting
fix: nomad-bridge reconcile

StaticRules $ iptables -F CNI-FORWARD
fail static_rules: the jump from CNI-FORWARD to NOMAD-ADMIN is missing in table ip filter
fix: nomad-bridge reconcile

ForeignPolicy $ nft 'table inet mine { chain forward {
  type filter hook forward priority 10; policy drop; }; }'
fail forward.foreign: chain forward of table inet mine (policy drop) comes after ours and drops
fix: nft add rule inet mine forward meta mark and 0x1000 == 0x1000 accept

ForeignRule $ nft 'table ip mine { chain last {
  type filter hook forward priority 0; ip protocol icmp accept; drop; }; }'
fail forward.foreign: chain last of table ip mine (a rule for all packets) comes after ours
fix: nft insert rule ip mine last handle 3 meta mark and 0x1000 == 0x1000 accept

DropBeforeOurJump $ iptables -I FORWARD -j DROP
fail forward.foreign: chain FORWARD of table ip filter (a rule for all packets) comes before our jump
fix: iptables -t filter -I FORWARD 1 -m comment --comment 'CNI firewall plugin rules' -j CNI-FORWARD

OneDirection $ nft 'table inet mine { chain forward {
  type filter hook forward priority 10; policy drop; oifname nomad accept; }; }'
warn forward.foreign: chain forward of table inet mine (policy drop) comes after ours and drops what allocations send
fix: nft add rule inet mine forward meta mark and 0x1000 == 0x1000 accept

StrictForwardPorts $ nft 'table inet firewalld { chain filter_FORWARD_dnat { reject; }; }'
warn forward.foreign: firewalld rejects published ports: it has StrictForwardPorts=yes
advice: set StrictForwardPorts=no in /etc/firewalld/firewalld.conf, then firewall-cmd --reload

Firewalld $ nft add table inet firewalld
fail firewalld.zone: 'br-other' is in no zone of firewalld
type: nomad-bridge reconcile

OrphanElement $ nft 'add element inet nomad-bridge port4 {
  tcp . 9999 comment "veth00000000000 id=gone" : 172.26.64.99 . 80 }'
fail ports.orphan: tcp . 9999 in port4 of veth00000000000 has no owner
fix: nomad-bridge gc

OrphanSource $ nft 'add element inet nomad-bridge alloc4 {
  172.26.64.99 comment "veth00000000000 id=gone" }'
warn ports.orphan: of veth00000000000 has no owner
fix: nomad-bridge gc

OrphanLease $ printf 'gone\r\neth0' >/var/run/cni/nomad/172.26.70.1
warn leases.orphan: the lease of 172.26.70.1
fix: nomad-bridge gc

Mtu $ ip link set uplink mtu 1400
warn bridge.mtu: have an MTU of 1500, the way out of the node has 1400
advice: "mtu": "auto"

SubnetOverlap $ ip route add 172.26.79.0/24 dev uplink
fail bridge.subnet_overlap: 172.26.64.0/20 of 'nomad' overlaps with 172.26.79.0/24 by 'uplink'
advice: another subnet

RuleOfAVpn $ ip route add 172.26.64.0/20 dev uplink table 52; ip rule add lookup 52 priority 5270
fail bridge.subnet_overlap: packets to 172.26.64.0/20 leave by 'uplink', not by 'nomad': of the node's routing rules, 'from all lookup 52' comes first
fix: ip rule add to 172.26.64.0/20 lookup main priority 5269

Networkd $ cp -a /etc /run/etc; mount --bind /run/etc /etc; mkdir -p /run/systemd/netif/links
echo ADMIN_STATE=configured >/run/systemd/netif/links/$INDEX
warn networkd: 'nomad' is managed by systemd-networkd
fix: 'Name=veth??????????? br-other nomad' '[Link]' Unmanaged=yes >/etc/systemd/network/10-nomad-bridge.network && networkctl reload

NetworkManager $ cp -a /etc /run/etc; mount --bind /run/etc /etc; mkdir -p /run/NetworkManager/devices
printf '[device]\nmanaged=true\n' >/run/NetworkManager/devices/$INDEX
warn networkmanager: 'nomad' is managed by NetworkManager
fix: >/etc/NetworkManager/conf.d/10-nomad-bridge.conf && nmcli general reload

PluginVersion $ rm /opt/cni/bin/nomad-bridge; cp $BIN /opt/cni/bin/nomad-bridge
echo older >>/opt/cni/bin/nomad-bridge
warn plugins.version: runtimes run '/opt/cni/bin/nomad-bridge', which is another release
fix:  install /opt/cni/bin

PluginMissing $ rm /opt/cni/bin/nomad-bridge
fail plugins.missing: plugin 'nomad-bridge' is not in /opt/cni/bin
fix: nomad-bridge install /opt/cni/bin

ChainedPluginMissing $ echo '{"cniVersion": "1.1.0", "name": "mesh", "plugins": [
  {"type": "nomad-bridge"}, {"type": "consul-cni"}]}' >/opt/cni/config/mesh.conflist
fail plugins.missing: plugin 'consul-cni' is not in /opt/cni/bin
advice: install it there

Conflist $ echo '{"cniVersion": "1.1.0", "name": "bad", "plugins": [
  {"type": "nomad-bridge", "mtu": 1}]}' >/opt/cni/config/bad.conflist
fail conflist.valid: /opt/cni/config/bad.conflist: invalid 'mtu': 1
advice: nomad-bridge config check /opt/cni/config/bad.conflist

DnsStub $ echo 'nameserver 127.0.0.53' >/run/resolv.conf
mkdir -p /run/systemd/resolve; echo 'nameserver 203.0.113.53' >/run/systemd/resolve/resolv.conf
warn dns.stub: allocations of network 'nomad' cannot reach
advice: /opt/cni/config/nomad.conflist: "ipam": {"resolvConf": "/run/systemd/resolve/resolv.conf"}

DnsStubAlone $ echo 'nameserver 127.0.0.53' >/run/resolv.conf
warn dns.stub: allocations of network 'nomad' cannot reach
advice: /opt/cni/config/nomad.conflist: "dns": {"nameservers": ["ADDRESS"]}

UplinkForwarding $ sysctl -qw net.ipv4.conf.uplink.forwarding=0
fail sysctl.ip_forward: net/ipv4/conf/uplink/forwarding is 0: packets for containers are not
fix: sysctl -w net/ipv4/conf/uplink/forwarding=1

BadRecord $ echo '{' >/run/nomad-bridge/nomad/alloc-1@eth0.json
fail records: container 'alloc-1' has no readable record: 
advice: CHECK writes it again (Nomad runs CHECK when its agent starts)

LostRecord $ rm /run/nomad-bridge/nomad/alloc-1@eth0.json
fail records: container 'alloc-1' has no readable record
advice: CHECK writes it again (Nomad runs CHECK when its agent starts)

OwnDirectory $ mkdir -p /run/lists; echo '{' >/run/lists/broken.conflist
cp -a /etc /run/etc; mount --bind /run/etc /etc; mkdir -p /etc/nomad.d; printf 'client {\n  # cni_config_dir = "/none"\n  cni_config_dir = "/run/lists"\n}\n' >/etc/nomad.d/client.hcl
fail conflist.valid: /run/lists/broken.conflist
advice: nomad-bridge config check /run/lists/broken.conflist

OwnDirectoryOnOneLine $ mkdir -p /run/lists; echo '{' >/run/lists/broken.conflist
cp -a /etc /run/etc; mount --bind /run/etc /etc; mkdir -p /etc/nomad.d; echo 'client { enabled = true, cni_config_dir="/run/lists" }' >/etc/nomad.d/client.hcl
fail conflist.valid: /run/lists/broken.conflist
advice: nomad-bridge config check /run/lists/broken.conflist

OwnDirectoryAsJson $ mkdir -p /run/lists; echo '{' >/run/lists/broken.conflist
cp -a /etc /run/etc; mount --bind /run/etc /etc; mkdir -p /etc/nomad.d; echo '{"client": {"enabled": true, "cni_config_dir": "/run/lists"}}' >/etc/nomad.d/client.json
fail conflist.valid: /run/lists/broken.conflist
advice: nomad-bridge config check /run/lists/broken.conflist

OwnPluginsOnOneLine $ cp -a /etc /run/etc; mount --bind /run/etc /etc; mkdir -p /etc/nomad.d
echo 'client { cni_path = "/run/plugins" } # of its own' >/etc/nomad.d/client.hcl
fail plugins.missing: plugin 'nomad-bridge' is not in /run/plugins
fix: nomad-bridge install /run/plugins

KilledAdd $ sed -i 's/"live"/"making"/g' /run/nomad-bridge/nomad/alloc-1@eth0.json
warn records: an ADD of container 'alloc-1' was killed
fix: nomad-bridge gc

KilledDel $ sed -i 's/"live"/"leaving"/g' /run/nomad-bridge/nomad/alloc-1@eth0.json
warn records: a DEL of container 'alloc-1' was killed
fix: nomad-bridge gc

FullRun $ used=$(df -k --output=used /run | tail -1); mount -o remount,size=$((used + 64))k /run
cat /dev/zero >/run/zero 2>/dev/null || true
fail run: /run is full: no ADD can write its record
fix: mount -o remount,size=20%,nr_inodes=0 /run

LeaseOfAnother $ printf 'zzz\r\neth0' >/var/run/cni/nomad/172.26.64.2
fail leases.missing: the lease of 172.26.64.2 belongs to container 'zzz'
advice: else: rm /var/run/cni/nomad/172.26.64.2 && nomad-bridge reconcile
)";

struct Damage : Named {
  std::string command, verdict, id, what, remedy, fix;
};

std::vector<Damage> Damages() {
  static const std::string kText = kDamages;
  static const std::regex kBlock(
      R"((\w+) \$ ([^]+?)\n(warn|fail) (.+?): (.*)\n(fix|type|advice): (.*)\n)");
  std::vector<Damage> damages;
  for (std::sregex_iterator at(kText.begin(), kText.end(), kBlock), end; at != end; ++at) {
    const std::string_view name((*at)[1].first, (*at)[1].second);
    damages.push_back(
        {{name}, at->str(2), at->str(3), at->str(4), at->str(5), at->str(6), at->str(7)});
  }
  if (damages.empty() || !kText.ends_with(Cat(damages.back().fix, '\n'))) {
    throw std::logic_error("the last block is not as the others are");
  }
  return damages;
}

class DoctorCheck : public Doctor, public ::testing::WithParamInterface<Damage> {
 protected:
  // What damages mount, but for what is under /run.
  void TearDown() override {
    for (const char* const path : {"/etc", "/proc/sys/net/netfilter"}) {
      ::umount2(path, MNT_DETACH);
    }
  }

  // What stands in for the programs that this machine has not: each does what the real one would.
  void MakeOthersPrograms() {
    const std::string conf = Config().dump();
    host().Must({"sh",
                 "-ec",
                 R"(mkdir -p /run/stubs; cd /run/stubs; printf '%s' "$1" >conf
cat >nomad <<END
[ "\$1 \$2" = "alloc stop" ] && CNI_COMMAND=DEL CNI_CONTAINERID=\$3 CNI_IFNAME=eth0 \
  CNI_PATH=/opt/cni/bin /opt/cni/bin/nomad-bridge </run/stubs/conf
END
cat >networkctl <<END
grep -q Unmanaged=yes /etc/systemd/network/10-nomad-bridge.network
for link in /run/systemd/netif/links/*; do echo ADMIN_STATE=unmanaged >\$link; done
END
cat >nmcli <<END
grep -q 'interface-name:nomad' /etc/NetworkManager/conf.d/10-nomad-bridge.conf
for link in /run/NetworkManager/devices/*; do echo managed=false >\$link; done
END
for name in nomad networkctl nmcli; do sed -i '1i#!/bin/sh -e' $name; chmod +x $name; done)",
                 "sh",
                 conf});
  }

  void Paste(const std::string& fix) {
    const std::string directory = fs::path(BinaryUnderTest()).parent_path();
    host().Shell(Cat("PATH=/run/stubs:", directory, ":$PATH; ", fix));
  }
};

TEST_P(DoctorCheck, NamesTheDamageAndItsFixRepairsIt) {
  const Damage& damage = GetParam();
  MakeOthersPrograms();
  EXPECT_EQ(FindingsOf(damage.id).at(0).at("verdict"), "ok");
  constexpr const char* kNames =
      "; INDEX=$(ip -o link show nomad | cut -d: -f1); "
      "BIN=$(readlink -f /opt/cni/bin/nomad-bridge)\n";
  host().Shell(Cat("VETH=", HostVethOf(web_), kNames, damage.command));
  const json found = FindingsOf(damage.id).at(0);
  EXPECT_EQ(found.at("verdict"), damage.verdict);
  EXPECT_THAT(found.at("what").get<std::string>(), HasSubstr(damage.what));
  if (damage.id != "ports.probe") {  // metrics send nothing
    const std::string sample = Cat("{check=\"", damage.id, "\",verdict=\"", damage.verdict, "\"} ");
    EXPECT_THAT(Run({"metrics"}, {{"CNI_PATH", std::nullopt}}),
                Out(AllOf(HasSubstr(sample), Not(HasSubstr(Cat(sample, "0\n"))))));
  }
  // Which Nomad asks before it keeps the network of an allocation that it finds running.
  if (damage.id == "containers") {
    EXPECT_NE(Check(Publish({Port(8080, 80, "tcp", "127.0.0.1")}), web_).exit_code, 0);
  }
  const bool is_advice = damage.remedy == "advice";
  EXPECT_THAT(found.at(is_advice ? "advice" : "fix").get<std::string>(), HasSubstr(damage.fix));
  EXPECT_EQ(found.at(is_advice ? "fix" : "advice"), "");
  if (damage.remedy == "fix") {
    Paste(found.at("fix"));
    EXPECT_EQ(FindingsOf(damage.id).at(0).at("verdict"), "ok");
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DoctorCheck, ::testing::ValuesIn(Damages()), kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
