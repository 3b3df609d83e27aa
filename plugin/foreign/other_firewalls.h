// Firewalls of others that decide after ours, and what can be done about them.
//
//   iptables-nft      the static rules in its tables (firewall/static_rules.h): nothing to do here
//   iptables-legacy   tables of another kernel interface, if in use: the same rules there, by its
//                     own tool, as there is no netlink for them
//   firewalld         rejects what no zone allows: the bridge becomes an interface of a zone, for
//                     good, by its own tool; so it stays over a reload
//   any other         is named: only its owner can help
//
// Costs    Once per bridge, and once after anybody has changed the ruleset; where tables of
//          iptables-legacy are in use, their tool at every CHECK too, as no generation tells of
//          them. Nothing is started where none of these firewalls is there.
// Errors   None: an allocation may well work without. What went wrong is a line on stderr.
#pragma once

#include <string>
#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::foreign {

// Lets them through what comes from or goes to the bridge of `record`.
void OpenOtherFirewalls(state::Host& host, const state::Record& record);

// The legacy tables' part of it.
void OpenLegacyTables(const state::Record& record);

// Who may drop what we accept, one line each.
[[nodiscard]] std::vector<std::string> NotesOnOtherFirewalls(state::Host& host,
                                                             int accept_mark_bit);

}  // namespace nomad_bridge::foreign
