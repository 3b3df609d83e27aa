#include "plugin/causes/explain_rules.h"

#include <algorithm>

#include "base/list.h"
#include "base/text.h"
#include "plugin/causes/explain_inside.h"
#include "plugin/causes/rule_cause.h"

namespace nomad_bridge::causes {
namespace {

using probe::PacketKind;

// Returns a rule that hands the packet to a program, if the packet was not seen afterwards.
const Seen* KeptByRule(const Trail& trail) {
  const Seen* const last = trail.steps.empty() ? nullptr : &trail.steps.back();
  const bool is_kept = last != nullptr && !last->marker &&
                       (last->step.verdict.code == nft::Verdict::Code::kQueue ||
                        last->step.verdict.code == nft::Verdict::Code::kStolen);
  return is_kept ? last : nullptr;
}

// Explains a drop by our rules for packets that conntrack assigns to no connection.
Causes ByConntrack(NodeFacts& facts, const Connection& connection, const Trail& trail) {
  Causes untracked = FindUntracking(facts, connection, trail);
  if (!untracked.empty()) {
    return untracked;
  }
  return {{.text = Format("conntrack does not see {} as part of the connection",
                          PacketText(connection, PacketKind::kAnswer)),
           .fix = Fix::Advice("look at its zones and timeouts: nft list ruleset; iptables-save -t "
                              "raw; sysctl net.netfilter")}};
}

// A drop by our rules is intended, unless somebody else's change leads the packet to these rules.
Causes ByOurs(NodeFacts& facts,
              const Connection& connection,
              const Trail& trail,
              const Seen& drop) {
  if (Contains(drop.path, std::string("invalid"))) {
    return ByConntrack(facts, connection, trail);
  }
  const bool is_answer = drop.packet == PacketKind::kAnswer && connection.server_record;
  Causes causes = is_answer && drop.step.table.family == nft::TableFamily::kBridge
                      ? ExplainAnswer(facts, connection, trail)
                      : Causes();
  return causes.empty() ? Causes{CauseOf(facts, connection, drop, "drops")} : causes;
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
Cause ByOthers(NodeFacts& facts, const Connection& connection, const Seen& drop) {
  Cause cause = CauseOf(facts, connection, drop, "drops");
  return !cause.is_meant && IsAboutClients(facts, connection, drop) ? AboutClients(std::move(cause))
                                                                    : cause;
}

}  // namespace

Causes ExplainByRule(NodeFacts& facts, const Connection& connection, const Trail& trail) {
  if (const Seen* const drop = trail.Drop()) {
    return IsOurs(*drop) ? ByOurs(facts, connection, trail, *drop)
                         : Causes{ByOthers(facts, connection, *drop)};
  }
  if (const Seen* const kept = KeptByRule(trail)) {
    return {CauseOf(facts, connection, *kept, "hands to a program that does not answer")};
  }
  return {};
}

Causes FindRedirect(NodeFacts& facts, const Connection& connection, const Trail& trail) {
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
  return redirect == trail.steps.end() ? Causes()
                                       : Causes{CauseOf(facts, connection, *redirect, "redirects")};
}

Causes FindUntracking(NodeFacts& facts, const Connection& connection, const Trail& trail) {
  for (const Seen& seen : trail.steps) {
    if (seen.marker || IsOurs(seen) || seen.step.handle == 0 || seen.side != Side::kNode) {
      continue;
    }
    const std::string rule = RuleText(facts, connection, seen);
    for (const char* const word : {"notrack", "ct zone", "xt target \"CT\"", "xt target CT"}) {
      if (rule.find(word) != std::string::npos) {
        return {CauseOf(facts, connection, seen, "changes how conntrack follows")};
      }
    }
  }
  return {};
}

}  // namespace nomad_bridge::causes
