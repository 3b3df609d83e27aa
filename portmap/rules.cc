#include "portmap/rules.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/ip.h"
#include "base/list.h"
#include "base/text.h"
#include "firewall/table.h"

namespace nomad_bridge::portmap {
namespace {

using firewall::kBridges;
using firewall::kFamilies;
using firewall::kGateways;
using firewall::Prefix;
using firewall::SetName;
using Point = nft::Hook::Point;

constexpr const char* kHostports = "hostports";

std::vector<firewall::SetRow> Maps() {
  using enum nft::Type;
  using firewall::Role;
  return {
      {kPort, {kInetProto, kInetService}, {kIpv4Addr, kInetService}, Role::kPorts},
      {kHostIp, {kIpv4Addr, kInetProto, kInetService}, {kIpv4Addr, kInetService}, Role::kPorts},
  };
}

// A port published on one host address takes precedence over the same port published on all.
nft::Chain Hostports() {
  nft::Chain chain = {.name = kHostports};
  for (const Family family : kFamilies) {
    // dnat ip to ip daddr . meta l4proto . th dport map @hostip4
    chain.rules.push_back(nft::Rule().Only(family).DnatByAddressAndPort(SetName(kHostIp, family)));
  }
  for (const Family family : kFamilies) {
    // meta nfproto ipv4 dnat ip to meta l4proto . th dport map @port4
    chain.rules.push_back(nft::Rule().Only(family).DnatByPort(SetName(kPort, family)));
  }
  return chain;
}

// Used for packets that arrive, and for packets that the node itself sends.
nft::Chain Entrance(const std::string& name, Point point, const nft::Rule& exception) {
  return {
      .name = name,
      .hook =
          nft::Hook{.type = "nat", .point = point, .priority = firewall::kDestinationNatPriority},
      .rules = {
          exception,
          // fib daddr type local goto hostports
          nft::Rule().DaddrIsLocal().Goto(kHostports),
      }};
}

// Lets packets to 127.0.0.0/8 pass untranslated. The node's own packets were translated in `output`
// already. A neighbour on a link can send a frame for 127.0.0.1 to the node, but ports published
// there are for the node alone.
nft::Rule LeaveIpv4Localhost() {
  // ip daddr 127.0.0.0/8 accept
  return nft::Rule().Ipv4().Daddr(Prefix("127.0.0.0/8")).Accept();
}

// Packets of the node to ::1 are not translated: the kernel drops replies for ::1 from any link but
// lo. Clients that try ::1 first are refused at once, and go on to 127.0.0.1.
nft::Rule LeaveIpv6Localhost() {
  // ip6 daddr ::1 accept
  return nft::Rule().Ipv6().Daddr(Prefix("::1/128")).Accept();
}

nft::Rule MasqueradeLocalhost() {
  // ip saddr 127.0.0.0/8 ip daddr @snat4 oifname @bridges masquerade
  // Otherwise the allocation would reply to its own localhost.
  return nft::Rule()
      .Ipv4()
      .Saddr(Prefix("127.0.0.0/8"))
      .DaddrIn(SetName(firewall::kSnat, Family::kIpv4))
      .OifnameIn(kBridges)
      .Masquerade();
}

// Begins a rule of `family` with "ct status dnat".
nft::Rule Published(Family family) {
  return nft::Rule().CtStatusDnat().Only(family);
}

void AppendWayBack(std::vector<nft::Rule>& rules, Family family) {
  const auto masquerade = [&](nft::Rule rule) {
    rules.push_back(rule.OifnameIn(kBridges).Masquerade());
  };
  const std::string snat = SetName(firewall::kSnat, family);
  // Hairpin, and neighbours that use the node's port: replies would go directly over the bridge.
  // ct status dnat ip daddr @snat4 iifname @gateways oifname @bridges masquerade
  masquerade(Published(family).DaddrIn(snat).IifnameIn(kGateways));
  // ct status dnat ip daddr @snat4 iifname @bridges oifname != @gateways oifname @bridges
  // masquerade
  // The same holds for an allocation on the node's own LAN bridge. Packets from that LAN to an
  // allocation elsewhere keep their source: the reply passes the node.
  masquerade(Published(family).DaddrIn(snat).IifnameIn(kBridges).OifnameNotIn(kGateways));
  // ct status dnat ip saddr @alloc4 ip daddr @snat4 oifname @bridges masquerade
  // With br_netfilter the same packets are bridged, not routed, and have no input interface here.
  // So neighbours are recognized by their addresses.
  for (const std::string_view noun : {firewall::kAlloc, firewall::kMasq, firewall::kSnat}) {
    masquerade(Published(family).SaddrIn(SetName(noun, family)).DaddrIn(snat));
  }
  // ct status dnat ip daddr @masqall4 oifname @bridges masquerade
  masquerade(Published(family).DaddrIn(SetName(firewall::kMasqAll, family)));
}

std::vector<nft::Chain> Chains(int /*accept_mark_bit*/) {
  nft::Chain postrouting = {.name = firewall::kPostrouting, .rules = {MasqueradeLocalhost()}};
  for (const Family family : kFamilies) {
    AppendWayBack(postrouting.rules, family);
  }
  return {std::move(postrouting),
          Hostports(),
          Entrance("prerouting", Point::kPrerouting, LeaveIpv4Localhost()),
          Entrance("output", Point::kOutput, LeaveIpv6Localhost())};
}

using Bytes = std::vector<std::uint8_t>;

// Every field of a key is padded to 4 bytes.
constexpr std::size_t kFieldBytes = 4;

Bytes Field(Protocol protocol) {
  return {static_cast<std::uint8_t>(protocol), 0, 0, 0};
}

Bytes Field(std::uint16_t port) {
  return {static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port & 0xff), 0, 0};
}

bool IsIn(std::string_view noun, const nft::Element& element) {
  return std::ranges::any_of(kFamilies,
                             [&](Family family) { return element.set == SetName(noun, family); });
}

std::uint16_t PortIn(std::span<const std::uint8_t> field) {
  return static_cast<std::uint16_t>(field[0] << 8 | field[1]);
}

}  // namespace

const firewall::Contributor kPublishedPorts = {nft::TableFamily::kInet, &Maps, &Chains};

std::vector<nft::Element> Elements(const std::vector<DnatEntry>& entries,
                                   const std::string& comment) {
  std::vector<nft::Element> elements;
  elements.reserve(entries.size());
  for (const DnatEntry& entry : entries) {
    Bytes key = entry.host_ip ? firewall::AddressKey(*entry.host_ip) : Bytes();
    Append(key, Field(entry.protocol));
    Append(key, Field(entry.host_port));
    Bytes data = firewall::AddressKey(entry.container_ip);
    Append(data, Field(entry.container_port));
    elements.push_back(
        {.set = firewall::SetName(entry.host_ip ? kHostIp : kPort, entry.container_ip.family()),
         .key = std::move(key),
         .data = std::move(data),
         .comment = comment});
  }
  return elements;
}

std::optional<nft::Element> OnAllAddresses(const nft::Element& element) {
  for (const Family family : kFamilies) {
    if (element.set == SetName(kHostIp, family)) {
      return nft::Element{.set = SetName(kPort, family),
                          .key = Bytes(element.key.end() - 2 * kFieldBytes, element.key.end())};
    }
  }
  return std::nullopt;
}

std::optional<std::string> FindSetOfOneAddress(const nft::Element& element) {
  for (const Family family : kFamilies) {
    if (element.set == SetName(kPort, family)) {
      return SetName(kHostIp, family);
    }
  }
  return std::nullopt;
}

std::optional<DnatEntry> FindEntry(const nft::Element& element) {
  const bool any_address = IsIn(kPort, element);
  const std::span<const std::uint8_t> key(element.key);
  if ((!any_address && !IsIn(kHostIp, element)) || key.size() < 2 * kFieldBytes) {
    return std::nullopt;
  }
  const std::span<const std::uint8_t> address = key.first(key.size() - 2 * kFieldBytes);
  const std::span<const std::uint8_t> rest = key.last(2 * kFieldBytes);
  DnatEntry entry{.protocol = static_cast<Protocol>(rest[0]),
                  .host_ip = any_address ? std::nullopt : std::optional(Ip(address)),
                  .host_port = PortIn(rest.last(kFieldBytes))};
  const std::span<const std::uint8_t> data(element.data);
  if (data.size() > kFieldBytes) {
    entry.container_ip = Ip(data.first(data.size() - kFieldBytes));
    entry.container_port = PortIn(data.last(kFieldBytes));
  }
  return entry;
}

std::string DescribeKey(const nft::Element& element) {
  const std::optional<DnatEntry> entry = FindEntry(element);
  return entry ? DescribeHostPort(*entry) : std::string();
}

}  // namespace nomad_bridge::portmap
