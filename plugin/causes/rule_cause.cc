#include "plugin/causes/rule_cause.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <netinet/icmp6.h>

#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "firewall/static_rules.h"
#include "firewall/table.h"
#include "plugin/causes/explain_inside.h"
#include "plugin/causes/in_container.h"
#include "plugin/foreign/other_firewalls.h"
#include "plugin/foreign/tools.h"
#include "plugin/policy/judge.h"
#include "plugin/rules/tables.h"

namespace nomad_bridge::causes {
namespace {

using nft::TableFamily;
using probe::PacketKind;
using Place = Connection::Place;

// Returns the record of the container in which `seen` was; nullptr if it was on the node.
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

// Returns the rule as the kernel has it; an empty one for a policy, or if it is gone.
nft::KernelRule FindRule(NodeFacts& facts, const Connection& connection, const Seen& seen) {
  const std::vector<nft::KernelRule> rules = RulesOf(facts, connection, seen);
  const auto rule = std::ranges::find(rules, seen.step.handle, &nft::KernelRule::handle);
  return rule == rules.end() ? nft::KernelRule() : *rule;
}

// Returns the line of `nft -a list chain` with the rule's handle; empty if there is none.
std::string ReadRule(NodeFacts& facts, const Connection& connection, const Seen& seen) {
  const std::optional<std::string> tool = foreign::FindTool("nft");
  if (!tool || seen.step.handle == 0) {
    return {};
  }
  std::string listing;
  const auto read = [&] {
    listing = foreign::RunTool(*tool,
                               {"-a",
                                "list",
                                "chain",
                                nft::Text(seen.step.table.family),
                                seen.step.table.name,
                                seen.step.chain})
                  .out;
  };
  if (const state::Record* const record = ContainerOf(connection, seen)) {
    const std::optional<netlink::Netns> netns = link::FindNetns(*record);
    if (!netns) {
      return {};
    }
    netlink::InNetns(*netns, read);
  } else {
    netlink::InNetns(facts.host.netns, read);
  }
  const std::string end = Cat(" # handle ", seen.step.handle);
  for (const std::string& line : SplitFields(listing, "\n")) {
    if (line.ends_with(end)) {
      const std::size_t first = line.find_first_not_of("\t ");
      return line.substr(first, line.size() - end.size() - first);
    }
  }
  return {};
}

// Returns whether the rule is in a chain for the operator's own rules, or behind one.
bool IsOperators(const Connection& connection, const Seen& seen) {
  std::vector<std::string> chains(firewall::kOperatorsChains.begin(),
                                  firewall::kOperatorsChains.end());
  for (const std::optional<state::Record>* const record :
       {&connection.server_record, &connection.client_record}) {
    if (*record) {
      chains.push_back((*record)->rules.forward_hook.admin_chain);
    }
  }
  return IsIptables(seen.step.table) &&
         std::ranges::any_of(seen.path, [&](const auto& each) { return Contains(chains, each); });
}

// Matches the packets of the connection at one hook. It can be written in the languages of nft and
// of iptables.
struct Match {
  std::optional<Cidr> source;
  std::optional<Cidr> destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

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
  const auto if_own = [&](const std::optional<Ip>& address) -> std::optional<Cidr> {
    const std::optional<state::Record>& record =
        address == connection.server && connection.server_record ? connection.server_record
        : address == connection.source                           ? connection.client_record
                                                                 : std::nullopt;
    if (record) {
      return LastingMatch(*record, *address, seen, HasOurMark(connection, seen));
    }
    return address == connection.server ? std::optional(Cidr::Host(*address)) : std::nullopt;
  };
  Match match = {.source = if_own(seen.Source()), .destination = if_own(seen.Destination())};
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

// Returns a command that lets the connection pass. If the rule drops everything, that is the
// command of `doctor`. Else the command opens no more than the connection's port.
std::string CommandOf(NodeFacts& facts, const Connection& connection, const Seen& seen) {
  const nft::TableId& table = seen.step.table;
  const std::optional<state::Record>& record = RecordOf(connection);
  if (seen.side == Side::kNode && record) {
    const std::optional<Fix> known =
        firewall::FindFixOfDrop(facts.host.nft,
                                record->rules.forward_hook.accept_mark_bit,
                                table,
                                {seen.step.chain, seen.step.handle});
    if (known) {
      return known->command;
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
    return Cat(add,
               IptablesMatch(connection, match),
               "-j ",
               is_marked && is_forward ? firewall::kCniForward : "ACCEPT");
  }
  return Cat(add,
             is_marked ? firewall::NftMatchOfMark(record->rules.forward_hook.accept_mark_bit)
                       : std::string(),
             NftMatch(connection, match),
             "accept");
}

// Returns the cause for a rule of ours, whose drops are intended.
Finding OfOurs(NodeFacts& facts, const Connection& connection, const Seen& seen, std::string text) {
  const std::string_view key = rules::KeyOfDrop(seen.step.table.family, seen.step.chain);
  FindingList refused = key.empty() ? FindInPolicies(facts.host, connection) : FindingList();
  if (!refused.empty()) {
    refused.front().severity = Finding::Severity::kNote;
    return std::move(refused.front());
  }
  return {
      .text = std::move(text),
      .fix = Fix::Advice(
          key.empty() ? "compare the rules with the files of policies: nomad-bridge policy status"
                      : Format("that is what the network's config says by '{}'", key))};
}

std::string LookupText(const Connection& connection, const Seen& seen) {
  const bool is_arp = connection.family() == Family::kIpv4;
  return seen.packet == PacketKind::kAsk ? (is_arp ? "ARP requests" : "neighbour solicitations")
                                         : (is_arp ? "ARP replies" : "neighbour advertisements");
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
  return Format("ufw allow proto {} from {} to any port {}",
                connection.ProtocolName(),
                MatchText(LastingMatch(*connection.client_record, connection.source, seen, false)),
                connection.port);
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

Fix FixOf(NodeFacts& facts, const Connection& connection, const Seen& seen) {
  if (const std::optional<Fix> fix = UfwFix(facts, connection, seen)) {
    return *fix;
  }
  if (const std::optional<Fix> fix = FirewalldFix(connection, seen)) {
    return *fix;
  }
  const std::string command = CommandOf(facts, connection, seen);
  const state::Record* const container = ContainerOf(connection, seen);
  return container == nullptr ? command : container->InsideFix(command);
}

Finding Meant(Finding cause, std::string_view why) {
  cause.fix =
      Fix::Advice(Cat(why, cause.fix.command.empty() ? cause.fix.advice : cause.fix.command));
  cause.severity = Finding::Severity::kNote;
  return cause;
}

policy::End EndOf(Place place, const std::optional<state::Record>& record, const Ip& address) {
  policy::End end = {.address = address, .is_node = place == Place::kNode};
  if (record) {
    end.workload = record->Workload();
  }
  return end;
}

// "api#deny0" means that no allow could help; "api" means that an allow is missing.
Fix FixOf(state::Host& host, const std::string& rule) {
  const std::string& directory = host.policy.Directory();
  const std::string policy = rule.substr(0, rule.find('#'));
  return Fix::Advice(
      Format("{} policy {} in {}, if it is to be let in, then: nomad-bridge policy apply {}",
             policy == rule ? "an entry for it among the allows of" : "an exception in",
             policy,
             directory,
             ShellWord(directory)));
}

// Returns a rule that hands the packet to a program, if the packet was not seen afterwards.
const Seen* KeptByRule(const Trail& trail) {
  const Seen* const last = trail.steps.empty() ? nullptr : &trail.steps.back();
  const bool is_kept = last != nullptr && !last->marker &&
                       (last->step.verdict.code == nft::Verdict::Code::kQueue ||
                        last->step.verdict.code == nft::Verdict::Code::kStolen);
  return is_kept ? last : nullptr;
}

// Explains a drop by our rules for packets that conntrack assigns to no connection.
FindingList ByConntrack(NodeFacts& facts, const Connection& connection, const Trail& trail) {
  FindingList untracked = FindUntracking(facts, connection, trail);
  if (!untracked.empty()) {
    return untracked;
  }
  return {{.text = Format("conntrack does not see {} as part of the connection",
                          PacketText(connection, PacketKind::kAnswer)),
           .fix = Fix::Advice("look at its zones and timeouts: nft list ruleset; iptables-save -t "
                              "raw; sysctl net.netfilter")}};
}

// A drop by our rules is intended, unless somebody else's change leads the packet to these rules.
FindingList ByOurs(NodeFacts& facts,
                   const Connection& connection,
                   const Trail& trail,
                   const Seen& drop) {
  if (Contains(drop.path, std::string(firewall::kInvalid))) {
    return ByConntrack(facts, connection, trail);
  }
  const bool is_answer = drop.packet == PacketKind::kAnswer && connection.server_record;
  FindingList causes = is_answer && drop.step.table.family == nft::TableFamily::kBridge
                           ? ExplainAnswer(facts, connection, trail)
                           : FindingList();
  return causes.empty() ? FindingList{CauseOf(facts, connection, drop, "drops")} : causes;
}

// Returns whether another client beyond the node gets past the rule. The rule's text does not
// always show it: an earlier rule may jump to a chain, or look up a set, by the client's address.
bool IsAboutClients(NodeFacts& facts, const Connection& connection, const Seen& drop) {
  const std::optional<Connection> other = Planner(facts).ByAnotherClient(connection);
  if (!other) {
    return false;
  }
  const Trail trail = Probe(facts, *other);
  const Seen* const same = trail.Drop();
  return same == nullptr || same->step.table != drop.step.table ||
         same->step.chain != drop.step.chain || same->step.handle != drop.step.handle;
}

// Returns the cause for a rule that is not ours.
Finding ByOthers(NodeFacts& facts, const Connection& connection, const Seen& drop) {
  Finding cause = CauseOf(facts, connection, drop, "drops");
  return cause.severity != Finding::Severity::kNote && IsAboutClients(facts, connection, drop)
             ? AboutClients(std::move(cause))
             : cause;
}

}  // namespace

Finding AboutClients(Finding cause) {
  return Meant(std::move(cause), "the rule is about clients' addresses; if it is not meant: ");
}

bool IsOurs(const Seen& seen) {
  return seen.step.table.name == firewall::TableId().name;
}

std::string PacketText(const Connection& connection, PacketKind packet) {
  const bool is_answer = packet == PacketKind::kAnswer;
  if (connection.from == Place::kAllocation && !connection.IsPublished()) {
    return is_answer
               ? "the answer"
               : Format(
                     "what it sends to {}:{}", Bracketed(connection.destination), connection.port);
  }
  return is_answer ? "what the port answers" : "packets for the port";
}

std::string RuleText(NodeFacts& facts, const Connection& connection, const Seen& seen) {
  const std::string rule = ReadRule(facts, connection, seen);
  return Format(
      "chain {} of table {} ({})",
      seen.step.chain,
      nft::Text(seen.step.table),
      seen.step.handle == 0
          ? std::string("policy drop")
          : Format("rule with handle {}{}{}", seen.step.handle, rule.empty() ? "" : ": ", rule));
}

Finding CauseOf(NodeFacts& facts,
                const Connection& connection,
                const Seen& seen,
                const std::string& does) {
  const state::Record* const container = ContainerOf(connection, seen);
  const std::string rule = RuleText(facts, connection, seen);
  std::string text =
      Format("{}, {} {} {}",
             container == nullptr ? "on the node" : "in the container",
             rule,
             does,
             IsLookup(seen) ? LookupText(connection, seen) : PacketText(connection, seen.packet));
  if (container == nullptr && IsOurs(seen)) {
    return OfOurs(facts, connection, seen, std::move(text));
  }
  Fix fix = FixOf(facts, connection, seen);
  if (IsOperators(connection, seen)) {
    return Meant({.text = std::move(text), .fix = std::move(fix)},
                 "that chain has the operator's own rules; if this one is not meant: ");
  }
  Finding cause = {.text = std::move(text), .fix = std::move(fix)};
  return FindRule(facts, connection, seen).tests_source ? AboutClients(std::move(cause))
                                                        : std::move(cause);
}

FindingList FindInPolicies(state::Host& host, const Connection& connection) {
  const policy::Program& program = host.policy.Program();
  if (program.empty()) {
    return {};
  }
  const policy::Answer answer =
      policy::Judge(program,
                    {.from = EndOf(connection.from, connection.client_record, connection.source),
                     .to = EndOf(connection.to, connection.server_record, connection.server),
                     .protocol = connection.protocol,
                     .port = connection.server_port});
  if (answer.is_allowed) {
    return {};
  }
  return {{.text = Format("policy refuses what {} sends to {}/{}: rule {}",
                          connection.ClientText(),
                          connection.ProtocolName(),
                          connection.server_port,
                          answer.By()),
           .fix = FixOf(host, answer.By())}};
}

FindingList ExplainByRule(NodeFacts& facts, const Connection& connection, const Trail& trail) {
  if (const Seen* const drop = trail.Drop()) {
    return IsOurs(*drop) ? ByOurs(facts, connection, trail, *drop)
                         : FindingList{ByOthers(facts, connection, *drop)};
  }
  if (const Seen* const kept = KeptByRule(trail)) {
    return {CauseOf(facts, connection, *kept, "hands to a program that does not answer")};
  }
  return {};
}

FindingList FindRedirect(NodeFacts& facts, const Connection& connection, const Trail& trail) {
  const std::vector<nft::Socket::TableChain> chains = facts.host.nft.Chains();
  const auto redirects = [&](const Seen& seen) {
    const auto is_base = [&](const nft::Socket::TableChain& each) {
      return each.table == seen.step.table && each.chain.name == seen.path.front() &&
             each.chain.hook && each.chain.hook->type == "nat";
    };
    return !seen.marker && !IsOurs(seen) && seen.side == Side::kNode &&
           seen.packet == PacketKind::kRequest && seen.step.handle != 0 &&
           seen.step.verdict.code == nft::Verdict::Code::kAccept &&
           std::ranges::any_of(chains, is_base);
  };
  const auto redirect = std::ranges::find_if(trail.steps, redirects);
  return redirect == trail.steps.end()
             ? FindingList()
             : FindingList{CauseOf(facts, connection, *redirect, "redirects")};
}

FindingList FindUntracking(NodeFacts& facts, const Connection& connection, const Trail& trail) {
  for (const Seen& seen : trail.steps) {
    if (seen.marker || IsOurs(seen) || seen.step.handle == 0 || seen.side != Side::kNode) {
      continue;
    }
    if (FindRule(facts, connection, seen).changes_tracking) {
      return {CauseOf(facts, connection, seen, "changes how conntrack follows")};
    }
  }
  return {};
}

}  // namespace nomad_bridge::causes
