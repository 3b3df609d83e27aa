// Removes an attachment, or parts of it. (collect.h decides which attachments are stale, and
// unrecorded.h makes the record of an attachment that has none.)
//
// Order    First the record gets the phase leaving, so that nobody repairs what is removed. Another
//          IPAM plugin then releases the address, before the link goes, which the plugin may need.
//          The link goes before the rules, so that the container never sends without rules. After
//          the rules, the ports go to a sibling that wants them. Then the leases are released:
//          nothing leads to the address any more. The record goes last, and only if nothing failed,
//          so that the next DEL reads in it what is left.
// Errors   Throws nothing. Tries everything, and then returns one line for each failure.
// Locks    The caller holds the attachment's lock. The rules' and the leases' locks are taken.
#pragma once

#include <string>
#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Removes `parts` of `record`, and writes the record of what stays. Removes the record if nothing
// stays.
[[nodiscard]] std::vector<std::string> Remove(state::Host& host,
                                              const state::Record& record,
                                              const cni::Parts& parts);

// Removes `parts` of `record` as the file has it, which shows whether they were committed. For a
// step of Undo: throws kIncomplete.
void UndoParts(state::Host& host, const state::Record& record, const cni::Parts& parts);

}  // namespace nomad_bridge::attachment
