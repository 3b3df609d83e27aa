#include "firewall/port_filter.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <linux/if_ether.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>

#include "base/list.h"
#include "firewall/drops.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

constexpr const char* kPorts = "ports";
constexpr const char* kMac = "mac";
constexpr std::string_view kSource = "source";
constexpr const char* kIsolated = "isolated";
constexpr std::string_view kIsolatedAddress = "isolated_address";
constexpr DroppingChain kSourceChain = {"source", kSourceCheck};
constexpr DroppingChain kOwn4 = {"own4", kSourceCheck};
constexpr DroppingChain kOwn6 = {"own6", kSourceCheck};
constexpr DroppingChain kDropSource = {"drop_source", kSourceCheck};
constexpr DroppingChain kIsolate = {"isolate", kIngressPolicy};
constexpr DroppingChain kDropIsolated = {"drop_isolated", kIngressPolicy};

constexpr std::uint16_t kDhcpClient = 68;
constexpr std::uint16_t kDhcpv6Client = 546;

std::vector<SetRow> PortFilterSets() {
  using enum nft::Type;
  std::vector<SetRow> rows = {
      {kPorts, {kIfname}, {}, Role::kSource},
      {kMac, {kIfname, kEtherAddr}, {}, Role::kSource},
      {kSource, {kIfname, kEtherAddr, kIpv4Addr}, {}, Role::kSource},
      {kIsolated, {kIfname}, {}, Role::kForwarding},
      {kIsolatedAddress, {kIfname, kIpv4Addr}, {}, Role::kForwarding},
  };
  Append(rows, DropSets(nft::TableFamily::kBridge));
  return rows;
}

nft::Rule Icmpv6(std::uint8_t type) {
  return nft::Rule().EtherType(ETH_P_IPV6).L4Proto(IPPROTO_ICMPV6).Is(nft::kIcmpv6Type, {type});
}

// meta pkttype multicast ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 drop
// LLDP and the like. The port forwards them (base/bridge_port.h), so that they pass this chain.
// They are not counted: systems send them without need, and a bridge alone forwards none of them.
nft::Rule DropReservedGroups() {
  constexpr std::uint8_t kAll = 0xff;
  return nft::Rule()
      .Multicast()
      .IsMasked(nft::kEtherDaddr,
                {kAll, kAll, kAll, kAll, kAll, 0xf0},
                {0x01, 0x80, 0xc2, 0x00, 0x00, 0x00})
      .Drop();
}

// udp dport 68 goto drop_source: only DHCP clients receive there, whichever port the server uses;
// DHCPv6: 546.
nft::Rule ToDhcpClient(std::uint16_t port) {
  return nft::Rule().L4Proto(IPPROTO_UDP).Dport(port).Goto(kDropSource.name);
}

// Overwrites the target of a neighbour advertisement with its source address, which source6 has
// allowed. The kernel's own advertisements have that target already, and stay as they are. Any
// other advertisement gets a wrong checksum; if the receiver does not verify it, it only advertises
// the sender's own address. A look-up of the target in source6 would be simpler, but nft 1.0.6
// cannot read back its own output for that.
nft::Rule AdvertiseOnlyTheSource() {
  constexpr std::uint32_t kHalf = 8;
  // icmpv6 type nd-neighbor-advert @th,64,64 set @nh,64,64 @th,128,64 set @nh,128,64
  nft::Rule rule = Icmpv6(ND_NEIGHBOR_ADVERT);
  for (std::uint32_t offset = 0; offset < nft::kIp6Saddr.bytes; offset += kHalf) {
    const nft::Field source = {nft::kIp6Saddr.header, nft::kIp6Saddr.offset + offset, kHalf};
    rule.Copy(source,
              {nft::kIcmpv6Type.header,
               static_cast<std::uint32_t>(offsetof(nd_neighbor_advert, nd_na_target)) + offset,
               kHalf});
  }
  return rule;
}

// Accepts nearly all frames: those with the address and the MAC of their port.
std::vector<nft::Rule> OwnFrames() {
  const auto own = [](std::uint16_t type, const nft::Field& address, Family family) {
    return nft::Rule()
        .Protocol(type)
        .PortWith({nft::kEtherSaddr, address}, SetName(kSource, family))
        .Goto((family == Family::kIpv4 ? kOwn4 : kOwn6).name);
  };
  return {
      // iifname . ether saddr . ip saddr @source4 goto own4
      own(ETH_P_IP, nft::kIpSaddr, Family::kIpv4),
      // iifname . ether saddr . ip6 saddr @source6 goto own6
      own(ETH_P_IPV6, nft::kIp6Saddr, Family::kIpv6),
  };
}

std::vector<nft::Chain> OwnChains() {
  return {
      {.name = kOwn4.name,
       .rules =
           {
               // ether type != ip goto drop_source
               // The packet has a VLAN tag. The ether type shows the tag even if the card has
               // removed it.
               nft::Rule().EtherTypeNot(ETH_P_IP).Goto(kDropSource.name),
               DropReservedGroups(),
               ToDhcpClient(kDhcpClient),
           }},
      {.name = kOwn6.name,
       .rules =
           {
               // ether type != ip6 goto drop_source
               nft::Rule().EtherTypeNot(ETH_P_IPV6).Goto(kDropSource.name),
               DropReservedGroups(),
               // icmpv6 type nd-router-advert goto drop_source
               Icmpv6(ND_ROUTER_ADVERT).Goto(kDropSource.name),
               AdvertiseOnlyTheSource(),
               ToDhcpClient(kDhcpv6Client),
           }},
  };
}

// Judges all other frames of our ports.
std::vector<nft::Rule> OtherFrames() {
  return {
      // iifname != @ports accept
      nft::Rule().IifnameNotIn(kPorts).Accept(),
      // iifname . ether saddr != @mac goto drop_source
      nft::Rule().PortNotWith({nft::kEtherSaddr}, kMac).Goto(kDropSource.name),
      // ip saddr != 0.0.0.0 goto drop_source
      // 0.0.0.0 is for DHCP clients. The node does not route it.
      nft::Rule()
          .Protocol(ETH_P_IP)
          .IsNot(nft::kIpSaddr, nft::Bytes(nft::kIpSaddr.bytes))
          .Goto(kDropSource.name),
      // iifname . arp saddr ether != @mac goto drop_source
      nft::Rule()
          .EtherType(ETH_P_ARP)
          .PortNotWith({nft::kArpSaddrEther}, kMac)
          .Goto(kDropSource.name),
      // arp saddr ip != 0.0.0.0 iifname . ether saddr . arp saddr ip != @source4 goto drop_source
      // A probe from 0.0.0.0 asks whether an address is in use.
      nft::Rule()
          .EtherType(ETH_P_ARP)
          .IsNot(nft::kArpSaddrIp, nft::Bytes(nft::kArpSaddrIp.bytes))
          .PortNotWith({nft::kEtherSaddr, nft::kArpSaddrIp}, SetName(kSource, Family::kIpv4))
          .Goto(kDropSource.name),
      // ip6 saddr != :: goto drop_source
      nft::Rule()
          .Protocol(ETH_P_IPV6)
          .IsNot(nft::kIp6Saddr, nft::Bytes(nft::kIp6Saddr.bytes))
          .Goto(kDropSource.name),
      // icmpv6 type nd-neighbor-solicit iifname . ether saddr . ip6 daddr != @source6
      //   goto drop_source
      // Duplicate address detection for a neighbour's address would keep the neighbour from using
      // it.
      Icmpv6(ND_NEIGHBOR_SOLICIT)
          .PortNotWith({nft::kEtherSaddr, nft::kIp6Daddr}, SetName(kSource, Family::kIpv6))
          .Goto(kDropSource.name),
      // icmpv6 type nd-neighbor-advert goto drop_source
      // Advertisements from :: are invalid, but the kernel learns from them.
      Icmpv6(ND_NEIGHBOR_ADVERT).Goto(kDropSource.name),
      // ether type 8021q goto drop_source, ether type 8021ad goto drop_source
      // Receivers ignore a tag of VLAN 0.
      nft::Rule().EtherType(ETH_P_8021Q).Goto(kDropSource.name),
      nft::Rule().EtherType(ETH_P_8021AD).Goto(kDropSource.name),
      DropReservedGroups(),
      Icmpv6(ND_ROUTER_ADVERT).Goto(kDropSource.name),
      // meta l4proto ipv6-icmp accept, meta protocol ip6 goto drop_source
      // The kernel accepts UDP from ::, too.
      nft::Rule().L4Proto(IPPROTO_ICMPV6).Accept(),
      nft::Rule().Protocol(ETH_P_IPV6).Goto(kDropSource.name),
      ToDhcpClient(kDhcpClient),
  };
}

// Returns the group to which duplicate address detection sends (RFC 4291, 2.7.1). The group has
// only the last three bytes of the address, but nft 1.0.6 cannot read back its own output for a
// look-up of the whole address.
Ip SolicitedNodeGroup(const Ip& address) {
  constexpr std::size_t kPrefixBytes = 13;
  std::array<std::uint8_t, 16> group = {0xff, 0x02};
  group[11] = 0x01;
  group[12] = 0xff;
  std::ranges::copy(address.bytes().subspan(kPrefixBytes), group.begin() + kPrefixBytes);
  return Ip(group);
}

nft::Chain SourceChain() {
  nft::Chain chain = {
      .name = kSourceChain.name,
      .hook = nft::Hook{
          .type = "filter", .point = nft::Hook::Point::kPrerouting, .priority = kBridgeDstnat}};
  Append(chain.rules, OwnFrames());
  Append(chain.rules, OtherFrames());
  return chain;
}

// Notes by the port, the MAC, and the source address that the frame gives.
nft::Chain SourceDrops() {
  const auto note = [](nft::Rule rule, const nft::Field& address, Family family) {
    return rule.NotePortWith(
        {nft::kEtherSaddr, address}, SetName(kSourceDropsFrom, family), kDropTimeoutMs);
  };
  return DropChain(
      kDropSource,
      {
          // meta protocol ip
          //   update @source_drops_from4 { iifname . ether saddr . ip saddr timeout 1h counter }
          //   drop
          note(nft::Rule().Protocol(ETH_P_IP), nft::kIpSaddr, Family::kIpv4),
          // The same for IPv6 and ARP.
          note(nft::Rule().Protocol(ETH_P_IPV6), nft::kIp6Saddr, Family::kIpv6),
          note(nft::Rule().EtherType(ETH_P_ARP), nft::kArpSaddrIp, Family::kIpv4),
          // update @source_drops { iifname . ether saddr timeout 1h counter } drop
          nft::Rule().NotePortWith({nft::kEtherSaddr}, kSourceDrops, kDropTimeoutMs),
      });
}

// Sees the frames between two isolated ports of a bridge, for ingressPolicy isolated. Without
// br_netfilter such frames pass no other chain. A bridge floods broadcasts to all ports, so a
// lookup of any neighbour comes here: it counts only at the port of the address that it looks up.
nft::Chain Isolate() {
  return {.name = kIsolate.name,
          .rules = {
              // ether type arp oifname . arp daddr ip @isolated_address4 goto drop_isolated
              nft::Rule()
                  .EtherType(ETH_P_ARP)
                  .OutPortWith(nft::kArpDaddrIp, SetName(kIsolatedAddress, Family::kIpv4))
                  .Goto(kDropIsolated.name),
              // icmpv6 type nd-neighbor-solicit oifname . ip6 daddr @isolated_address6
              //   goto drop_isolated
              Icmpv6(ND_NEIGHBOR_SOLICIT)
                  .OutPortWith(nft::kIp6Daddr, SetName(kIsolatedAddress, Family::kIpv6))
                  .Goto(kDropIsolated.name),
              // ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00 goto drop_isolated
              nft::Rule()
                  .IsMasked(nft::kEtherDaddr, {1, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0})
                  .Goto(kDropIsolated.name),
              // drop
              nft::Rule().Drop(),
          }};
}

nft::Chain IsolatedDrops() {
  // update @isolated_drops { iifname . oifname timeout 1h counter } drop
  return DropChain(kDropIsolated, {nft::Rule().NoteIfnames(kIsolatedDrops, kDropTimeoutMs)});
}

// With br_netfilter, packets to a neighbour's published port come here, too: table inet has
// translated and marked them.
nft::Chain ForwardChain(int mark_bit) {
  return {.name = kForwardChain,
          .hook =
              nft::Hook{
                  .type = "filter", .point = nft::Hook::Point::kForward, .priority = kBridgeFilter},
          .rules = {
              // iifname @isolated oifname @isolated meta mark & 0x1000 != 0x1000 goto isolate
              nft::Rule().IifnameIn(kIsolated).OifnameIn(kIsolated).MarkBitIsNotSet(mark_bit).Goto(
                  kIsolate.name),
          }};
}

std::vector<nft::Chain> PortFilterChains(int mark_bit) {
  std::vector<nft::Chain> chains = OwnChains();
  Append(chains,
         {SourceDrops(), SourceChain(), IsolatedDrops(), Isolate(), ForwardChain(mark_bit)});
  return chains;
}

constexpr std::array kDroppingAtPorts =
    {kSourceChain, kOwn4, kOwn6, kDropSource, kIsolate, kDropIsolated};

}  // namespace

const Contributor kPortFilter = {nft::TableFamily::kBridge,
                                 &PortFilterSets,
                                 &PortFilterChains,
                                 kDroppingAtPorts};

std::vector<nft::Element> Elements(const PortSource& source, const std::string& comment) {
  std::vector<nft::Element> elements;
  const std::vector<std::uint8_t> port = NameKey(source.port);
  std::vector<std::uint8_t> port_and_mac = port;
  Append(port_and_mac, {source.mac.bytes.begin(), source.mac.bytes.end()});
  port_and_mac.resize(port.size() + nft::PaddedBytes(nft::Type::kEtherAddr));
  const auto add = [&](const std::string& set, std::vector<std::uint8_t> key) {
    elements.push_back({.set = set,
                        .key = std::move(key),
                        .comment = comment,
                        .family = nft::TableFamily::kBridge});
  };
  const auto add_address = [&](const Ip& address) {
    std::vector<std::uint8_t> key = port_and_mac;
    Append(key, {address.bytes().begin(), address.bytes().end()});
    add(SetName(kSource, address.family()), std::move(key));
  };
  const auto add_detectable = [&](const Ip& address) {
    add_address(address);
    if (!address.is_ipv4()) {
      add_address(SolicitedNodeGroup(address));
    }
  };
  add(kPorts, port);
  add(kMac, port_and_mac);
  add_detectable(source.mac.LinkLocal());
  std::ranges::for_each(source.addresses, add_detectable);
  return elements;
}

std::vector<nft::Element> IsolatedElements(const std::string& port,
                                           const std::vector<Ip>& addresses,
                                           const std::string& comment) {
  std::vector<nft::Element> elements = {PortElement(kIsolated, port, comment)};
  for (const Ip& address : addresses) {
    nft::Element element = PortElement(SetName(kIsolatedAddress, address.family()), port, comment);
    Append(element.key, AddressKey(address.is_ipv4() ? address : SolicitedNodeGroup(address)));
    elements.push_back(std::move(element));
  }
  return elements;
}

nft::Element PortElement(const std::string& set,
                         const std::string& port,
                         const std::string& comment) {
  return {
      .set = set, .key = NameKey(port), .comment = comment, .family = nft::TableFamily::kBridge};
}

bool HasBridgeFamily(nft::Socket& socket) {
  if (socket.FindChain(TableId(nft::TableFamily::kBridge), kSourceChain.name)) {
    return true;
  }
  const nft::TableId probe = {nft::TableFamily::kBridge, "nomad-bridge-probe"};
  nft::Batch batch;
  batch.AddTable(probe);
  batch.AddChain(probe, {.name = kSourceChain.name, .hook = SourceChain().hook});
  batch.DeleteTable(probe);
  bool is_refused = false;
  nft::RetryOnGenerations(socket, "look for nf_tables' bridge family", {}, [&](std::uint32_t now) {
    const nft::CommitReply reply = socket.Commit(batch, now);
    // ENOENT: no such chain type in this family; EOPNOTSUPP: no such family.
    is_refused = std::ranges::any_of(reply.refused, [](const nft::Refusal& refusal) {
      return refusal.error == ENOENT || refusal.error == EOPNOTSUPP;
    });
    if (!is_refused && !reply.refused.empty()) {
      throw nft::ErrorOf(batch, reply);
    }
    return is_refused || reply.done();
  });
  return !is_refused;
}

}  // namespace nomad_bridge::firewall
