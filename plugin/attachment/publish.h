// An attachment's rules put in force, and what follows from that for others: stale owners of a port or
// address are taken down, other firewalls are told, a sibling gets its ports.
//
// Errors   as in rules/apply.h.
// Locks    The attachment's own lock is held by the caller.
#pragma once

#include "firewall/ruleset.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Puts everything of `record` in force, in one atomic batch. What dead attachments hold of it is
// taken over, and they are buried. Says on stderr what was mended. `mode`: whether
// some of it may be in force already.
void ApplyRules(state::Host& host, const state::Record& record, firewall::PlanMode mode);

// The same for an attachment that has its rules already, if anything was changed in the ruleset
// since we last looked.
void RepairRules(state::Host& host, const state::Record& record);

// When the rules of `record` are gone: its ports go to another attachment of the same container that
// wants them too.
void TransferPortsToSibling(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::attachment
