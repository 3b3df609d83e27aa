#include "plugin/rules/forward_hooks.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/foreign/other_firewalls.h"
#include "plugin/foreign/tools.h"
#include "plugin/rules/converge.h"

namespace nomad_bridge::rules {
namespace {

using firewall::ForwardHook;

bool IsForwardedFor(const state::Record& record) {
  return HasForwardHook(record) && record.IsLive(cni::Part::kForward);
}

// The mark is one bit for the whole node, so networks have to agree on it.
void RequireSameMarkBit(const state::Record& record, const DesiredState& desired) {
  for (const state::Record& other : desired.records()) {
    if (IsForwardedFor(other) &&
        other.rules.forward_hook.accept_mark_bit != record.rules.forward_hook.accept_mark_bit &&
        other.id.network != record.id.network) {
      throw Error(
          Code::kConflict,
          Format("acceptMarkBit is {} in network '{}', but {} in network '{}'",
                 record.rules.forward_hook.accept_mark_bit,
                 record.id.network,
                 other.rules.forward_hook.accept_mark_bit,
                 other.id.network),
          "the bit is one for the whole node: networks with live allocations must agree on it");
    }
  }
}

}  // namespace

bool HasForwardHook(const state::Record& record) {
  return !record.rules.forward_hook.admin_chain.empty();
}

int MarkBitInUse(const state::Checkpoint& checkpoint, LazyDesiredState& desired) {
  if (checkpoint.accept_mark_bit != state::kNoMarkBit) {
    return checkpoint.accept_mark_bit;
  }
  const std::vector<state::Record>& records = desired->records();
  const auto other = std::ranges::find_if(records, IsForwardedFor);
  return other != records.end() ? other->rules.forward_hook.accept_mark_bit
                                : ForwardHook().accept_mark_bit;
}

int MarkBitFor(const state::Record& record,
               const state::Checkpoint& checkpoint,
               LazyDesiredState& desired) {
  if (!HasForwardHook(record)) {
    return MarkBitInUse(checkpoint, desired);
  }
  const int bit = record.rules.forward_hook.accept_mark_bit;
  // Records are read only where the bit is new to the node.
  if (checkpoint.accept_mark_bit != bit) {
    RequireSameMarkBit(record, *desired);
  }
  return bit;
}

std::vector<ForwardHook> HooksIn(const state::Checkpoint& checkpoint, int mark_bit) {
  std::vector<ForwardHook> hooks;
  for (const std::string& chain : checkpoint.admin_chains) {
    hooks.push_back({.admin_chain = chain,
                     .accept_mark_bit = mark_bit,
                     .ipv6 = Contains(checkpoint.admin_chains_ipv6, chain)});
  }
  return hooks;
}

std::vector<ForwardHook> HooksOf(const DesiredState& desired, int mark_bit) {
  std::vector<ForwardHook> hooks;
  for (const state::Record& record : desired.records()) {
    ForwardHook hook = record.rules.forward_hook;
    hook.accept_mark_bit = mark_bit;
    if (IsForwardedFor(record) && !Contains(hooks, hook)) {
      hooks.push_back(std::move(hook));
    }
  }
  return hooks;
}

void NoteHooks(const firewall::Goal& goal, state::Checkpoint& checkpoint) {
  checkpoint.admin_chains.clear();
  checkpoint.admin_chains_ipv6.clear();
  const auto note = [&](const ForwardHook& hook) {
    checkpoint.admin_chains.push_back(hook.admin_chain);
    if (hook.ipv6) {
      checkpoint.admin_chains_ipv6.push_back(hook.admin_chain);
    }
  };
  std::ranges::for_each(goal.forward_hooks, note);
  if (goal.new_forward_hook) {
    note(*goal.new_forward_hook);
  }
  for (std::vector<std::string>* const chains :
       {&checkpoint.admin_chains, &checkpoint.admin_chains_ipv6}) {
    std::ranges::sort(*chains);
    chains->erase(std::unique(chains->begin(), chains->end()), chains->end());
  }
}

std::optional<ForwardHook> FindNewHook(const state::Record& record,
                                       const std::vector<ForwardHook>& hooks) {
  const ForwardHook& own = record.rules.forward_hook;
  const bool is_known = std::ranges::any_of(hooks, [&](const ForwardHook& hook) {
    return hook.admin_chain == own.admin_chain && (hook.ipv6 || !own.ipv6);
  });
  return HasForwardHook(record) && !is_known ? std::optional(own) : std::nullopt;
}

void CheckOtherFirewalls(state::Host& host,
                         const state::Record& record,
                         const state::Checkpoint& checkpoint,
                         Mismatches& mismatches) {
  if (!HasForwardHook(record)) {
    return;
  }
  foreign::Drops drops{.basis = checkpoint.foreign_basis, .lines = checkpoint.foreign_drops};
  const bool is_known = Contains(checkpoint.opened_ifnames, record.link.gateway_ifname) &&
                        checkpoint.legacy_filter == foreign::FilterFingerprint();
  const bool is_told = !is_known && foreign::CheckOtherFirewalls(host, record, mismatches);
  if (!is_known && mismatches.is_repairing()) {
    drops =
        foreign::DropsOfOthers(host, record.rules.forward_hook.accept_mark_bit, std::move(drops));
  }
  if (is_told && mismatches.is_repairing()) {
    UpdateCheckpoint(host, [&](state::Checkpoint& now) {
      // Another ADD may have added it meanwhile.
      std::erase(now.opened_ifnames, record.link.gateway_ifname);
      now.opened_ifnames.push_back(record.link.gateway_ifname);
      now.legacy_filter = foreign::FilterFingerprint();
      now.foreign_basis = drops.basis;
      now.foreign_drops = drops.lines;
    });
  }
  if (mismatches.is_repairing()) {
    for (const std::string& line : drops.lines) {
      LogLine("{}", line);
    }
  }
}

}  // namespace nomad_bridge::rules
