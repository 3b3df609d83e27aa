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

namespace nomad_bridge {

// By its record. The record goes last, and only if nothing failed, so that the next DEL knows as
// much.
[[nodiscard]] std::vector<std::string> TearDown(Host& host, const Record& record);

// Without one (never seen, or lost): the kernel's elements and the link by the name derived from
// `who`, leases by what their files say.
[[nodiscard]] std::vector<std::string> TearDownUnrecorded(Host& host,
                                                          const Attachment& who,
                                                          const std::string& data_dir);

}  // namespace nomad_bridge
