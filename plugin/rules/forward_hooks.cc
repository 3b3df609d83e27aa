#include "plugin/rules/forward_hooks.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
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
  // Records are read only if the bit is new to the node.
  if (checkpoint.accept_mark_bit != bit) {
    RequireSameMarkBit(record, *desired);
  }
  return bit;
}

// Also returns hooks of networks whose last attachment is gone: they stay until everything is
// compared.
std::vector<ForwardHook> HooksIn(const state::Checkpoint& checkpoint, int mark_bit) {
  std::vector<ForwardHook> hooks;
  for (const auto& [chain, has_ipv6] : checkpoint.admin_chains) {
    hooks.push_back({.admin_chain = chain, .accept_mark_bit = mark_bit, .ipv6 = has_ipv6});
  }
  return hooks;
}

std::vector<ForwardHook> HooksOf(const DesiredState& desired, int mark_bit) {
  std::vector<ForwardHook> hooks;
  for (const state::Record& record : desired.records()) {
    if (IsForwardedFor(record)) {
      ForwardHook hook = record.rules.forward_hook;
      hook.accept_mark_bit = mark_bit;
      AddHook(hook, hooks);
    }
  }
  return hooks;
}

bool AddHook(const ForwardHook& hook, std::vector<ForwardHook>& hooks) {
  const bool is_new =
      !hook.admin_chain.empty() && std::ranges::none_of(hooks, [&](const ForwardHook& known) {
        return known.admin_chain == hook.admin_chain && (known.ipv6 || !hook.ipv6);
      });
  if (is_new) {
    hooks.push_back(hook);
  }
  return is_new;
}

void NoteHooks(const std::vector<ForwardHook>& hooks, state::Checkpoint& checkpoint) {
  checkpoint.admin_chains.clear();
  for (const ForwardHook& hook : hooks) {
    bool& has_ipv6 = checkpoint.admin_chains[hook.admin_chain];
    has_ipv6 = has_ipv6 || hook.ipv6;
  }
}

void CheckOtherFirewalls(state::Host& host,
                         const state::Record& record,
                         const state::Checkpoint& checkpoint,
                         Mismatches& mismatches) {
  if (!HasForwardHook(record) || (Contains(checkpoint.opened_ifnames, record.link.gateway_ifname) &&
                                  checkpoint.legacy_filter == foreign::FilterFingerprint())) {
    return;
  }
  if (foreign::CheckOtherFirewalls(host, record, mismatches) && mismatches.is_repairing()) {
    // Saves this only if every tool answered. If a tool failed, the next command asks it again.
    UpdateCheckpoint(host, [&](state::Checkpoint& now) {
      // Another ADD may have added the name meanwhile.
      std::erase(now.opened_ifnames, record.link.gateway_ifname);
      now.opened_ifnames.push_back(record.link.gateway_ifname);
      now.legacy_filter = foreign::FilterFingerprint();
    });
  }
}

}  // namespace nomad_bridge::rules
