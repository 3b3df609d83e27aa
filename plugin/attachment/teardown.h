// Taking a recorded attachment away.
//
// Order    rules, link, leases, record: an address is released only when nothing leads to it any more.
//          The record goes last, and only if nothing failed, so that the next DEL knows as much.
// Errors   Nothing is thrown: what failed comes back, one line each, after everything was tried.
// Locks    The attachment's lock is held by the caller; the rules' and the leases' are taken.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// `transfer_ports` is called when the rules are gone: see Remove() in remove.h.
[[nodiscard]] std::vector<std::string> TearDown(
    state::Host& host,
    const state::Record& record,
    const std::function<void()>& transfer_ports = [] {});

}  // namespace nomad_bridge::attachment
