// Taking an attachment away, all of it, whatever of it is left: with or without a record, ours or
// made by the reference plugins.
//
// Order    as in teardown.h; when its rules are gone, its ports go to a sibling that wants them.
// Errors   Nothing is thrown, unless said: what failed comes back, one line each, after everything has
//          been tried.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/undo.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// By its record. The record goes last, and only if nothing failed, so that the next DEL knows as
// much.
[[nodiscard]] std::vector<std::string> Remove(state::Host& host, const state::Record& record);

// Of that, only what `parts` have: rules and published ports. The rest stays, with a record that says
// so, and that it is `del_progress`; with the last part the record goes.
[[nodiscard]] std::vector<std::string> RemoveParts(state::Host& host,
                                                   const state::Record& record,
                                                   const cni::Parts& parts,
                                                   state::DelProgress del_progress);

// What an earlier ADD left is in the way of a new one, whether its namespace lives or not: its rules
// and its link go. Its leases stay, for the new one to get the same addresses; if that fails
// (`undo`), they go too. Throws kIncomplete if something of it cannot be removed.
void RemoveEarlier(state::Host& host,
                   const AttachmentId& id,
                   const std::optional<state::Record>& earlier,
                   const std::string& data_dir,
                   Undo& undo);

// Without one (never seen, or lost): the kernel's elements and the link by the name derived from
// `id`, leases by what their files say. `addresses`: what else it is known to have had.
[[nodiscard]] std::vector<std::string> RemoveUnrecorded(state::Host& host,
                                                        const AttachmentId& id,
                                                        const std::string& data_dir,
                                                        const std::vector<Ip>& addresses = {});

}  // namespace nomad_bridge::attachment
