// The host's side of an attachment, compared with its record and repaired: bridge, gateway, host
// veth, leases, rules.
//
// Errors   Mismatches that are left come back, one line each; what the kernel refuses is thrown: those
//          of link/bridge.h and rules/apply.h.
// Locks    The attachment's own lock is held by the caller; the leases' and the rules' are taken.
#pragma once

#include <string>
#include <vector>

#include "plugin/config/config.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Makes every host veth whose record names `bridge` its port again, once after that was created anew.
// Logs each.
void RepairPortsOfNewBridge(state::Host& host, const rtnl::Link& bridge);

// Repairs and logs; returns what cannot be repaired.
[[nodiscard]] std::vector<std::string> RepairHostSide(state::Host& host,
                                                      const config::LinkConfig& config,
                                                      const state::Record& record);

// The same without changing anything: all mismatches.
[[nodiscard]] std::vector<std::string> DiffHostSide(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::attachment
