// What the node forwards by: the bit of the mark, which is one for all networks, and the operator's
// chains with the static rules that lead to them. Those in force are in the checkpoint; records are
// read where it knows nothing. Beside them, whether other firewalls let pass what is forwarded.
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

// Whether the node forwards for `record`: only then it has a say in the mark's bit.
[[nodiscard]] bool HasForwardHook(const state::Record& record);

// The bit in use, unless nothing is known of it.
[[nodiscard]] int MarkBitInUse(const state::Checkpoint& checkpoint, LazyDesiredState& desired);

// That of `record` if it is forwarded for, else the one in use.
[[nodiscard]] int MarkBitFor(const state::Record& record,
                             const state::Checkpoint& checkpoint,
                             LazyDesiredState& desired);

[[nodiscard]] std::vector<firewall::ForwardHook> HooksIn(const state::Checkpoint& checkpoint,
                                                         int mark_bit);
[[nodiscard]] std::vector<firewall::ForwardHook> HooksOf(const DesiredState& desired, int mark_bit);

// Adds `hook` to `hooks`, unless it is none or is among them already. Returns whether it is new.
bool AddHook(const firewall::ForwardHook& hook, std::vector<firewall::ForwardHook>& hooks);

void NoteHooks(const std::vector<firewall::ForwardHook>& hooks, state::Checkpoint& checkpoint);

// Other firewalls let packets of `record` pass. They are looked at once, until the ruleset, or
// iptables-legacy's, is changed again. The caller must not hold the rules' lock: other programs'
// tools take their time.
void CheckOtherFirewalls(state::Host& host,
                         const state::Record& record,
                         const state::Checkpoint& checkpoint,
                         Mismatches& mismatches);

}  // namespace nomad_bridge::rules
