// Policies at bridge ports, in table bridge nomad-bridge: what the rules of table inet cannot
// judge. They see neither the port of a packet nor, of a broadcast, whom it reaches.
//
// Shapes  Set here: the host veths of all allocations. Sets "sel-<hash>": the host veths of those
//         that a selector selects. Map in: a closed allocation's host veth, and the chain for
//         frames to the allocation that do not have one of its addresses (sets port_address4/6) as
//         destination: broadcast, multicast, and addresses that nobody assigned.
// Limits  Such frames are not counted, and not noted as flows. Audited policies do not see them.
// Source  docs/inside/rules.md
#pragma once

#include <string>
#include <vector>

#include "firewall/contributor.h"
#include "netlink/nft/element.h"
#include "plugin/policy/program.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// The sets and chains that all policies share.
extern const firewall::Contributor kPolicyPorts;
// The shapes of sets made for policies, by the prefix of their names.
extern const firewall::Contributor kPortSetShapes;

// Returns the attachment's bridge ports: our host veth, or those of another plugin.
[[nodiscard]] std::vector<std::string> PortsOf(const state::Record& record);

// Returns the elements of `record`, which has been judged, for its ports.
[[nodiscard]] std::vector<nft::Element> PolicyPortElements(const state::Record& record,
                                                           const std::string& comment);

// Adds to `table`, of the bridge family, what the chains need that judge packets to allocations,
// and the sets `selected`.
void AddPortChain(const policy::Chain& chain, nft::Table& table);
void AddPortSet(const std::string& selected, nft::Table& table);

}  // namespace nomad_bridge::rules
