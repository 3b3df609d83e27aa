// Taking an attachment away, all of it, whatever of it is left.
//
// Order    rules, link, leases, record: an address is given back only when nothing leads to it any
//          more.
// Errors   Nothing is thrown: what failed comes back, one line each, after everything has been
//          tried.
#pragma once

#include <string>
#include <vector>

#include "plugin/host.h"
#include "plugin/record.h"
#include "plugin/undo.h"

namespace nomad_bridge {

// By its record. The record goes last, and only if nothing failed, so that the next DEL knows as
// much.
[[nodiscard]] std::vector<std::string> TearDown(Host& host, const Record& record);

// Of that, only what `parts` have: rules and published ports. The rest stays, with a record that says
// so, and that it is `leaving`; with the last part the record goes.
[[nodiscard]] std::vector<std::string> TearDownRules(Host& host,
                                                     const Record& record,
                                                     const Parts& parts,
                                                     Leaving leaving);

// What an earlier ADD left is in the way of a new one, whether its namespace lives or not: its rules
// and its link go. Its leases stay, for the new one to get the same addresses; if that fails
// (`undo`), they go too.
void RemoveEarlier(Host& host,
                   const Attachment& who,
                   const std::optional<Record>& earlier,
                   const std::string& data_dir,
                   Undo& undo);

// Without one (never seen, or lost): the kernel's elements and the link by the name derived from
// `who`, leases by what their files say. `addresses`: what else it is known to have had.
[[nodiscard]] std::vector<std::string> TearDownUnrecorded(Host& host,
                                                          const Attachment& who,
                                                          const std::string& data_dir,
                                                          const std::vector<Ip>& addresses = {});

}  // namespace nomad_bridge
