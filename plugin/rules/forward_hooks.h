// Finds what forwarding needs: the bit of the accept mark, which is the same for all networks, and
// the operator's chains with the static rules that lead to them. The checkpoint shows what is in
// force; if it does not, records are read. Also checks that other firewalls accept the packets.
//
// Errors  kConflict if another network with live attachments uses another acceptMarkBit.
#pragma once

#include <optional>
#include <vector>

#include "base/mismatch.h"
#include "firewall/forward_hook.h"
#include "firewall/ruleset.h"
#include "plugin/rules/desired.h"
#include "plugin/state/checkpoint.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Returns whether the node forwards for `record`. If not, the record's mark bit has no effect.
[[nodiscard]] bool HasForwardHook(const state::Record& record);

// Returns the mark bit in use: the bit in the checkpoint; without one, the bit of a live
// attachment; without one, the default.
[[nodiscard]] int MarkBitInUse(const state::Checkpoint& checkpoint, LazyDesiredState& desired);

// Returns the mark bit of `record` if the node forwards for it, otherwise the bit in use.
[[nodiscard]] int MarkBitFor(const state::Record& record,
                             const state::Checkpoint& checkpoint,
                             LazyDesiredState& desired);

// Returns the hooks that are in force: those in `checkpoint`.
[[nodiscard]] std::vector<firewall::ForwardHook> HooksIn(const state::Checkpoint& checkpoint,
                                                         int mark_bit);
// Returns the hooks that live attachments need.
[[nodiscard]] std::vector<firewall::ForwardHook> HooksOf(const DesiredState& desired, int mark_bit);

// Adds `hook` to `hooks` unless it names no chain or is there already. Returns whether it was
// added.
bool AddHook(const firewall::ForwardHook& hook, std::vector<firewall::ForwardHook>& hooks);

// Replaces the hooks in `checkpoint` by `hooks`.
void NoteHooks(const std::vector<firewall::ForwardHook>& hooks, state::Checkpoint& checkpoint);

// Checks that other firewalls let packets of `record` pass. If they do, does not ask them again
// until somebody changes the ruleset of nf_tables or of iptables-legacy. The caller must not hold
// the rules' lock, because the tools of other firewalls take time.
void CheckOtherFirewalls(state::Host& host,
                         const state::Record& record,
                         const state::Checkpoint& checkpoint,
                         Mismatches& mismatches);

}  // namespace nomad_bridge::rules
