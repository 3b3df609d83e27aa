// policy status -flows -log, -since: flows that outlast the kernel's sets. A timer prints each flow
// to the journal when it is first seen and when another rule decides, with the names of that time;
// -since reads them there.
//
// State   /run/nomad-bridge/.flows: {"holders": [...], "printed": {"FROM TO PORT": "refused by
//         api"}}: the allocations that the flows in the kernel's sets had as ends, and what was
//         printed of each flow. It is a cache: without it, flows are printed again, and flows of
//         ended allocations have no names.
// Source  journalctl(1) -o json, systemd.journal-fields(7): _SYSTEMD_UNIT is set by the journal, so
//         no other process can add flows.
// Errors  kIo, kKernel; CannotTell without journalctl, or if it refuses the time.
#pragma once

#include <string>

#include "plugin/cli/policy_flows.h"

namespace nomad_bridge::cli {

// Adds the allocations that the last LogFlows() knew to those of `known`.
void RecallHolders(Holders& known);

// Prints the flows that are new, or about which another rule decides: a line, or a JSON document,
// for each.
void LogFlows(state::Host& host, bool is_json);

// Returns the flows in the journal since `time` (as journalctl takes it), by the names of their
// ends; what the policies in force now make of them; the latest first.
[[nodiscard]] Flows ReadJournal(state::Host& host, const std::string& time);

}  // namespace nomad_bridge::cli
