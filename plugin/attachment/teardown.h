// Taking a recorded attachment away, in steps that others compose (remove.h).
//
// Order    rules, link, leases, record: an address is given back only when nothing leads to it any
//          more. The record goes last, and only if nothing failed, so that the next DEL knows as much.
// Errors   Nothing is thrown: what failed comes back, one line each, after everything has been
//          tried.
#pragma once

#include <string>
#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// The part of it that is in nf_tables.
[[nodiscard]] std::vector<std::string> TearDownRules(state::Host& host,
                                                     const std::vector<nft::Element>& elements);

// What comes after the rules: stale flows, the veth pair, the leases.
[[nodiscard]] std::vector<std::string> TearDownLinkAndLeases(state::Host& host,
                                                             const state::Record& record);

// All of it, record included. Its ports go to nobody: see Remove() in remove.h.
[[nodiscard]] std::vector<std::string> TearDown(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::attachment
