// Firewalls of other programs that decide after our rules, and what can be done about them.
//
//   iptables-nft      the static rules in its tables (firewall/static_rules.h): nothing to do here
//   iptables-legacy   if its tables are in use: the same rules there, by its own tool
//   firewalld         rejects what no zone allows: the bridge is added to a zone by its own tool,
//                     permanently, so that it stays after a reload; not one with an uplink
//   any other         nothing: only its owner can change it (firewall/foreign_drops.h finds it)
//
// Costs    Two requests where none of these firewalls is in use. Else a tool is started once per
//          bridge, and again after firewalld, or a table "filter" of iptables-legacy, was changed.
// Shapes   /run/nomad-bridge/.opened   a line that names the boot and these firewalls as they were
//                                      asked last, then the links that they let pass, a line each.
//                                      Void as soon as the first line is another one
// Errors   None: an allocation may work without. Failures are logged.
#pragma once

#include "base/finding.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::foreign {

// Checks that other firewalls let packets from and to the bridge of `record` pass. The caller must
// not hold the rules' lock, because their tools take time.
void CheckOtherFirewalls(state::Host& host, const state::Record& record, Findings& findings);

[[nodiscard]] nft::TableId FirewalldTable();

// A chain of firewalld's table that exists only with StrictForwardPorts=yes. It rejects published
// ports, except those that firewalld itself forwards.
constexpr const char* kStrictForwardPortsChain = "filter_FORWARD_dnat";

// Returns a warning if firewalld rejects published ports, as its operator has told it.
[[nodiscard]] FindingList FindStrictForwardPorts(state::Host& host);
[[nodiscard]] Fix StrictForwardPortsAdvice();

// Removes the rules with which iptables-legacy's tables accept the mark with that bit, of both
// families.
void EnsureLegacyAcceptsGone(int mark_bit);

}  // namespace nomad_bridge::foreign
