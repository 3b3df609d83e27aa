#include "firewall/foreign_drops.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include <netinet/in.h>

#include "base/text.h"
#include "firewall/table.h"
#include "netlink/nft/packet_path.h"

namespace nomad_bridge::firewall {
namespace {

// Matches chains at the forward hook, but not FORWARD of iptables, which has the static rules, nor
// the chains of firewalld, which has zones.
bool IsForeign(const nft::Socket::TableChain& each) {
  const std::optional<nft::Hook>& hook = each.chain.hook;
  const nft::TableFamily family = each.table.family;
  const bool is_ip = family == nft::TableFamily::kIp || family == nft::TableFamily::kIp6;
  const bool is_inet = family == nft::TableFamily::kInet;
  const bool is_iptables = is_ip && each.table.name == "filter" && each.chain.name == "FORWARD";
  const bool is_firewalld = is_inet && each.table.name == "firewalld";
  return hook && hook->type == "filter" && hook->point == nft::Hook::Point::kForward &&
         (is_ip || is_inet) && each.table != TableId() && !is_iptables && !is_firewalld;
}

// Our chain is at priority -1, and sets the mark.
bool IsBeforeOurs(const nft::Hook& hook) {
  return hook.priority < -1;
}

// Returns the command for a chain before ours. It accepts the bridge, because packets have no mark
// yet.
std::string AcceptBridgeCommand(const nft::Drop& drop, const std::string& bridge) {
  const std::string insert = Format("nft insert rule {} {} {} ",
                                    nft::Text(drop.table.family),
                                    ShellWord(drop.table.name),
                                    ShellWord(drop.base.name));
  const std::string name = ShellWord(bridge.empty() ? "BRIDGE" : bridge);
  return Format("{}iifname {} accept && {}oifname {} accept", insert, name, insert, name);
}

ForeignDrop Describe(const nft::Drop& drop, const std::string& bridge, int accept_mark_bit) {
  const bool is_before = IsBeforeOurs(*drop.base.hook);
  return {.what = Format("chain {} of table {} ({}) comes {} ours and drops",
                         drop.base.name,
                         nft::Text(drop.table),
                         drop.is_policy ? "policy drop" : "a rule for all packets",
                         is_before ? "before" : "after"),
          .fix = is_before ? AcceptBridgeCommand(drop, bridge)
                           : AcceptMarkCommand(drop.table, drop.base.name, accept_mark_bit)};
}

// Returns the names of our networks' bridges; "", which means any, if there is none.
std::vector<std::string> BridgeNames(nft::Socket& socket) {
  std::vector<std::string> names;
  for (const nft::Element& element : socket.Elements(TableId(), kBridges)) {
    names.emplace_back(element.key.begin(), std::ranges::find(element.key, 0));
  }
  return names.empty() ? std::vector<std::string>{""} : names;
}

// Returns the first packet of a TCP connection to `bridge`, and of one from it.
std::vector<nft::Packet> PacketsOf(const std::string& bridge, Family family) {
  const nft::Packet packet{.family = family, .protocol = IPPROTO_TCP, .ct_state = nft::kCtNew};
  nft::Packet to = packet;
  to.oifname = bridge;
  nft::Packet from = packet;
  from.iifname = bridge;
  return {to, from};
}

}  // namespace

std::string AcceptMarkCommand(const nft::TableId& table,
                              const std::string& chain,
                              int accept_mark_bit) {
  const std::string mark = Cat("0x", Hex(std::uint64_t{1} << accept_mark_bit, 4));
  return Format("nft insert rule {} {} {} meta mark and {} == {} accept",
                nft::Text(table.family),
                ShellWord(table.name),
                ShellWord(chain),
                mark,
                mark);
}

std::vector<ForeignDrop> FindForeignDrops(nft::Socket& socket, int accept_mark_bit) {
  const std::uint32_t mark = std::uint32_t{1} << accept_mark_bit;
  nft::Ruleset rules(socket);
  std::vector<ForeignDrop> found;
  const auto look = [&](const std::string& bridge, nft::Packet packet, bool is_before) {
    packet.mark = {.value = is_before ? 0 : mark, .known = mark};
    const auto concerns = [&](const nft::Socket::TableChain& each) {
      return IsForeign(each) && IsBeforeOurs(*each.chain.hook) == is_before;
    };
    if (const std::optional<nft::Drop> drop = rules.FindDrop(std::move(packet), concerns)) {
      const ForeignDrop described = Describe(*drop, bridge, accept_mark_bit);
      if (std::ranges::find(found, described.what, &ForeignDrop::what) == found.end()) {
        found.push_back(described);
      }
    }
  };
  for (const std::string& bridge : BridgeNames(socket)) {
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      for (const nft::Packet& packet : PacketsOf(bridge, family)) {
        look(bridge, packet, true);
        look(bridge, packet, false);
      }
    }
  }
  return found;
}

}  // namespace nomad_bridge::firewall
