#include "plugin/causes/rule_fix.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <netinet/icmp6.h>

#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "firewall/static_rules.h"
#include "plugin/foreign/other_firewalls.h"

namespace nomad_bridge::causes {
namespace {

using nft::TableFamily;
using probe::PacketKind;
using Place = Connection::Place;

// Returns the rules of the chain that `seen` is in; none for a container that is gone.
std::vector<nft::KernelRule> RulesOf(NodeFacts& facts,
                                     const Connection& connection,
                                     const Seen& seen) {
  const state::Record* const record = ContainerOf(connection, seen);
  const std::optional<netlink::Netns> netns =
      record != nullptr ? link::FindNetns(*record) : std::nullopt;
  std::optional<nft::Socket> inside = netns ? std::optional(nft::Socket::In(*netns)) : std::nullopt;
  if (record != nullptr && !inside) {
    return {};
  }
  nft::Socket& socket = inside ? *inside : facts.host.nft;
  return socket.Rules(seen.step.table, seen.step.chain);
}

// Matches the packets of the connection at one hook. It can be written in the languages of nft and
// of iptables.
struct Match {
  std::optional<Cidr> source;
  std::optional<Cidr> destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  bool is_for_one_address = false;  // of an allocation
};

// Returns the command; advice if its rule has to go with the allocation.
Fix FixBy(std::string command, bool is_for_one_address) {
  return is_for_one_address
             ? Fix::Advice(Cat("for as long as the allocation has its address, as the next owner "
                               "would inherit the rule: ",
                               command))
             : Fix(std::move(command));
}

const std::optional<state::Record>& RecordOf(const Connection& connection) {
  return connection.server_record ? connection.server_record : connection.client_record;
}

bool HasOurMark(const Connection& connection, const Seen& seen) {
  const std::optional<state::Record>& record = RecordOf(connection);
  return seen.side == Side::kNode && record &&
         (seen.step.mark & (std::uint32_t{1} << record->rules.forward_hook.accept_mark_bit)) != 0;
}

// Returns the subnet of the allocation of `record`, as its next allocation may have another
// address. Returns the address alone where a rule for the subnet would let others in: other
// machines are on it.
Cidr LastingMatch(const state::Record& record,
                  const Ip& address,
                  const Seen& seen,
                  bool is_marked) {
  const auto own = std::ranges::find(record.ipam.addresses, address, &Cidr::address);
  const bool is_lasting = is_marked || (!record.link.gateways.empty() && !record.link.adopted);
  return seen.side == Side::kNode && is_lasting && own != record.ipam.addresses.end()
             ? Cidr{own->Network(), own->prefix_length}
             : Cidr::Host(address);
}

// Leaves out addresses of the node, because the node has several.
Match MatchOf(const Connection& connection, const Seen& seen) {
  Match match;
  const auto if_own = [&](const std::optional<Ip>& address) -> std::optional<Cidr> {
    const std::optional<state::Record>& record =
        address == connection.server && connection.server_record ? connection.server_record
        : address == connection.source                           ? connection.client_record
                                                                 : std::nullopt;
    if (record) {
      const Cidr own = LastingMatch(*record, *address, seen, HasOurMark(connection, seen));
      match.is_for_one_address = seen.side == Side::kNode && own == Cidr::Host(*address);
      return own;
    }
    return address == connection.server ? std::optional(Cidr::Host(*address)) : std::nullopt;
  };
  match.source = if_own(seen.Source());
  match.destination = if_own(seen.Destination());
  (seen.packet == PacketKind::kAnswer ? match.source_port : match.destination_port) =
      seen.packet == PacketKind::kAnswer ? seen.SourcePort() : seen.DestinationPort();
  return match;
}

// Returns the prefix as nft and iptables print it.
std::string MatchText(const Cidr& prefix) {
  return prefix == Cidr::Host(prefix.address) ? prefix.address.Text() : prefix.Text();
}

std::string NftMatch(const Connection& connection, const Match& match) {
  const std::string_view ip = connection.family() == Family::kIpv4 ? "ip" : "ip6";
  const std::string protocol = connection.ProtocolName();
  std::string text;
  const auto add = [&](std::string_view of, std::string_view key, const auto& value) {
    text += Format("{} {} {} ", of, key, value);
  };
  if (match.source) {
    add(ip, "saddr", MatchText(*match.source));
  }
  if (match.destination) {
    add(ip, "daddr", MatchText(*match.destination));
  }
  if (match.source_port != 0) {
    add(protocol, "sport", match.source_port);
  }
  if (match.destination_port != 0) {
    add(protocol, "dport", match.destination_port);
  }
  return text;
}

std::string IptablesMatch(const Connection& connection, const Match& match) {
  std::string text;
  if (match.source) {
    text += Format("-s {} ", MatchText(*match.source));
  }
  if (match.destination) {
    text += Format("-d {} ", MatchText(*match.destination));
  }
  text += Format("-p {} ", connection.ProtocolName());
  if (match.source_port != 0) {
    text += Format("--sport {} ", match.source_port);
  }
  if (match.destination_port != 0) {
    text += Format("--dport {} ", match.destination_port);
  }
  return text;
}

// Returns the beginning of a command that adds a rule directly before the rule of `seen`, so that
// all rules before it stay in force: "iptables -t filter -I FORWARD 3 ".
std::string AddBefore(NodeFacts& facts, const Connection& connection, const Seen& seen) {
  const nft::TableId& table = seen.step.table;
  if (!IsIptables(table)) {
    return firewall::AddRuleBefore(table, {seen.step.chain, seen.step.handle});
  }
  return firewall::AddIptablesRule(
      table,
      seen.step.chain,
      firewall::NumberOfRule(RulesOf(facts, connection, seen), seen.step.handle));
}

std::string LookupCommand(const Connection& connection, const Seen& seen, const std::string& add) {
  if (IsIptables(seen.step.table)) {
    const int type = seen.packet == PacketKind::kAsk ? ND_NEIGHBOR_SOLICIT : ND_NEIGHBOR_ADVERT;
    return Format("{}-p icmpv6 --icmpv6-type {} -j ACCEPT", add, type);
  }
  return Cat(add,
             connection.family() == Family::kIpv4
                 ? "meta protocol arp"
                 : "icmpv6 type '{ nd-neighbor-solicit, nd-neighbor-advert }'",
             " accept");
}

// Returns what lets the connection pass. If the rule drops everything, that is the
// command of `doctor`. Else the command opens no more than the connection's port.
Fix FixByRule(NodeFacts& facts, const Connection& connection, const Seen& seen) {
  const nft::TableId& table = seen.step.table;
  const std::optional<state::Record>& record = RecordOf(connection);
  if (seen.side == Side::kNode && record) {
    const std::optional<Fix> known =
        firewall::FindFixOfDrop(facts.host.nft,
                                record->rules.forward_hook.accept_mark_bit,
                                table,
                                {seen.step.chain, seen.step.handle});
    if (known) {
      return *known;
    }
  }
  const std::string add = AddBefore(facts, connection, seen);
  if (IsLookup(seen)) {
    return LookupCommand(connection, seen, add);
  }
  const Match match = MatchOf(connection, seen);
  const bool is_marked = HasOurMark(connection, seen);
  if (IsIptables(table)) {
    // Our chain asks the operator's chain first, and accepts only what our table has accepted.
    const bool is_forward = table.name == "filter" && seen.path.front() == firewall::kForward &&
                            !Contains(seen.path, std::string(firewall::kCniForward));
    return FixBy(Cat(add,
                     IptablesMatch(connection, match),
                     "-j ",
                     is_marked && is_forward ? firewall::kCniForward : "ACCEPT"),
                 match.is_for_one_address);
  }
  return FixBy(Cat(add,
                   is_marked ? firewall::NftMatchOfMark(record->rules.forward_hook.accept_mark_bit)
                             : std::string(),
                   NftMatch(connection, match),
                   "accept"),
               match.is_for_one_address);
}

// Returns whether `seen` is a packet of an allocation for a service of the node.
bool IsForNode(const Connection& connection, const Seen& seen) {
  return seen.side == Side::kNode && connection.to == Place::kNode && connection.client_record &&
         seen.packet == PacketKind::kRequest;
}

// Returns a command for ufw, if ufw is in use: it would lose rules that iptables adds, with its
// next reload.
std::optional<Fix> UfwFix(NodeFacts& facts, const Connection& connection, const Seen& seen) {
  if (!IsForNode(connection, seen) || !IsIptables(seen.step.table) ||
      !facts.host.nft.FindChain(seen.step.table, "ufw-user-input")) {
    return std::nullopt;
  }
  const Cidr source = LastingMatch(*connection.client_record, connection.source, seen, false);
  return FixBy(Format("ufw allow proto {} from {} to any port {}",
                      connection.ProtocolName(),
                      MatchText(source),
                      connection.port),
               source == Cidr::Host(connection.source));
}

// Returns what to do about a rule of firewalld, which would lose rules that others add. What its
// zones let through to other zones is for the operator to say.
std::optional<Fix> FirewalldFix(const Connection& connection, const Seen& seen) {
  if (seen.side != Side::kNode || seen.step.table != foreign::FirewalldTable()) {
    return std::nullopt;
  }
  if (Contains(seen.path, std::string(foreign::kStrictForwardPortsChain))) {
    return foreign::StrictForwardPortsAdvice();
  }
  if (!IsForNode(connection, seen)) {
    return Fix::Advice(
        "that is what zones and policies of firewalld say: firewall-cmd --get-active-zones; "
        "firewall-cmd --list-all-policies");
  }
  const std::string ifname = ShellWord(connection.client_record->link.gateway_ifname);
  const std::string add =
      Format("--zone=$zone --add-port={}/{}", connection.port, connection.ProtocolName());
  return Format(
      "zone=$(firewall-cmd --get-zone-of-interface={} || firewall-cmd --get-default-zone) && "
      "firewall-cmd {} && firewall-cmd --permanent {}",
      ifname,
      add,
      add);
}

}  // namespace

const state::Record* ContainerOf(const Connection& connection, const Seen& seen) {
  const std::optional<state::Record>& record =
      seen.side == Side::kClient ? connection.client_record : connection.server_record;
  return seen.side == Side::kNode || !record ? nullptr : &*record;
}

bool IsIptables(const nft::TableId& table) {
  constexpr std::array<std::string_view, 5> kTables = {
      "filter", "nat", "mangle", "raw", "security"};
  return (table.family == TableFamily::kIp || table.family == TableFamily::kIp6) &&
         Contains(kTables, table.name);
}

bool IsLookup(const Seen& seen) {
  return seen.packet == PacketKind::kAsk || seen.packet == PacketKind::kTold;
}

nft::KernelRule FindRule(NodeFacts& facts, const Connection& connection, const Seen& seen) {
  const std::vector<nft::KernelRule> rules = RulesOf(facts, connection, seen);
  const auto rule = std::ranges::find(rules, seen.step.handle, &nft::KernelRule::handle);
  return rule == rules.end() ? nft::KernelRule() : *rule;
}

Fix FixOfRule(NodeFacts& facts, const Connection& connection, const Seen& seen) {
  if (const std::optional<Fix> fix = UfwFix(facts, connection, seen)) {
    return *fix;
  }
  if (const std::optional<Fix> fix = FirewalldFix(connection, seen)) {
    return *fix;
  }
  const Fix fix = FixByRule(facts, connection, seen);
  const state::Record* const container = ContainerOf(connection, seen);
  return container == nullptr ? fix : container->InsideFix(fix.command);
}

}  // namespace nomad_bridge::causes
