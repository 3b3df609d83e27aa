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

// What attachments share behind one gateway, as the record of one of them has it: bridge, gateway
// addresses, forwarding, and how the node reaches published ports by 127.0.0.1. Logs.
void RepairSegment(state::Host& host, const state::Record& record);
[[nodiscard]] std::vector<std::string> DiffSegment(state::Host& host, const state::Record& record);

// What is the attachment's own, where the segment is repaired, but for its rules: host veth and
// leases. Logs; returns what cannot be repaired.
[[nodiscard]] std::vector<std::string> RepairOwn(state::Host& host, const state::Record& record);
[[nodiscard]] std::vector<std::string> DiffOwn(state::Host& host, const state::Record& record);

// All of these with the rules: repairs and logs; returns what cannot be repaired.
[[nodiscard]] std::vector<std::string> RepairHostSide(state::Host& host,
                                                      const config::LinkConfig& config,
                                                      const state::Record& record);

// The same without changing anything: all mismatches.
[[nodiscard]] std::vector<std::string> DiffHostSide(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::attachment
