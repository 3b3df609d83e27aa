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

// That of `record`, if it is not one of `hooks`.
[[nodiscard]] std::optional<firewall::ForwardHook> FindNewHook(
    const state::Record& record,
    const std::vector<firewall::ForwardHook>& hooks);

void NoteHooks(const firewall::Goal& goal, state::Checkpoint& checkpoint);

// Other firewalls let packets of `record` pass. Looked at once until the ruleset is changed again.
// In mode kRepair what only the operator can do is logged, each time. Must be called without the
// rules' lock: other programs' tools take their time.
void CheckOtherFirewalls(state::Host& host,
                         const state::Record& record,
                         const state::Checkpoint& checkpoint,
                         Mismatches& mismatches);

}  // namespace nomad_bridge::rules
