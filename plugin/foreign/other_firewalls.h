// Firewalls of other programs that decide after our rules, and what can be done about them.
//
//   iptables-nft      the static rules in its tables (firewall/static_rules.h): nothing to do here
//   iptables-legacy   if its tables are in use: the same rules there, by its own tool
//   firewalld         rejects what no zone allows: the bridge is added to a zone by its own tool,
//                     permanently, so that it stays after a reload; not one with an uplink
//   any other         nothing: only its owner can change it (firewall/foreign_drops.h finds it)
//
// Costs    Once per bridge, and once after any change of the ruleset, or of a table "filter" of
//          iptables-legacy, by others. No tool is started where none of these firewalls is in use.
// Errors   None: an allocation may work without. Failures are logged.
#pragma once

#include "base/mismatch.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::foreign {

// They let packets from and to the bridge of `record` pass. False if a tool could not tell, or
// could not change it.
[[nodiscard]] bool CheckOtherFirewalls(state::Host& host,
                                       const state::Record& record,
                                       Mismatches& mismatches);

// Removes the rules with which iptables-legacy's tables accept our mark, of both families.
void EnsureLegacyAcceptsGone(state::Host& host);

}  // namespace nomad_bridge::foreign
