// Taking a recorded attachment away.
//
// Order    rules, link, leases, record: an address is released only when nothing leads to it any more.
//          The record goes last, and only if nothing failed, so that the next DEL knows as much.
// Errors   Nothing is thrown: what failed comes back, one line each, after everything was tried.
// Crash    The record says leaving before anything is removed, so that nobody repairs it meanwhile.
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

// Of `record` only the rules that `rest` does not have. The record is written anew, as `rest`; without
// any part in it it goes.
[[nodiscard]] std::vector<std::string> TearDownRules(
    state::Host& host,
    const state::Record& record,
    const state::Record& rest,
    const std::function<void()>& transfer_ports = [] {});

}  // namespace nomad_bridge::attachment
