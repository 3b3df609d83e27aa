#include "plugin/causes/rule_cause.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "firewall/table.h"
#include "plugin/causes/explain_inside.h"
#include "plugin/causes/in_container.h"
#include "plugin/causes/rule_fix.h"
#include "plugin/foreign/tools.h"
#include "plugin/policy/judge.h"
#include "plugin/rules/in_force.h"
#include "plugin/rules/tables.h"

namespace nomad_bridge::causes {
namespace {

using nft::TableFamily;
using probe::PacketKind;
using Place = Connection::Place;

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

Finding Meant(Finding cause, std::string_view why) {
  cause.fix =
      Fix::Advice(Cat(why, cause.fix.command.empty() ? cause.fix.advice : cause.fix.command));
  cause.severity = Finding::Severity::kNote;
  return cause;
}

policy::End EndOf(const rules::InForce& in_force,
                  Place place,
                  const std::optional<state::Record>& record,
                  const Ip& address) {
  policy::End end = {.address = address, .is_node = place == Place::kNode};
  if (record) {
    end.workload = record->Workload();
    end.in_force = in_force.OfAny(AddressesOnly(record->ipam.addresses));
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
  Fix fix = FixOfRule(facts, connection, seen);
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
  const rules::InForce in_force(host);
  const policy::Answer answer = policy::Judge(
      program,
      {.from = EndOf(in_force, connection.from, connection.client_record, connection.source),
       .to = EndOf(in_force, connection.to, connection.server_record, connection.server),
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
    if (IsOurs(*drop)) {
      return ByOurs(facts, connection, trail, *drop);
    }
    // What drops a packet that was sent elsewhere is right to do so.
    const bool is_elsewhere = connection.server_record && drop->packet == PacketKind::kRequest &&
                              drop->Destination() != connection.server;
    FindingList causes = is_elsewhere ? FindRedirect(facts, connection, trail) : FindingList();
    return causes.empty() ? FindingList{ByOthers(facts, connection, *drop)} : causes;
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
