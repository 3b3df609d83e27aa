// The few rules that stand in iptables' own tables: an accept in ours cannot undo a drop in another
// base chain, and Docker and many hosts drop in FORWARD.
//
//   table ip filter (ip6 filter too where a network has IPv6)
//     FORWARD      first:  jump CNI-FORWARD          comment "CNI firewall plugin rules"
//     CNI-FORWARD  first:  jump <admin chain>        comment "CNI firewall plugin admin overrides"
//                  then:   meta mark & 0x1000 == 0x1000 accept         comment "nomad-bridge: ..."
//     <admin chain>        the operator's: created empty if absent, never touched again
//
// Shapes  Only what iptables-nft 1.8.7-1.8.11 decodes, so that `iptables -S` and `iptables-save` go
//         on working; chain names and comments are the reference firewall plugin's, so that its own
//         checks (iptables -C) find them.
// Known   The same rules as iptables-nft writes them itself are recognised, so that none is there
//         twice.
// Source  CNI plugins, firewall's iptables backend; iptables-nft's nft-shared.c.
#pragma once

#include <string>
#include <vector>

#include "firewall/ruleset.h"
#include "netlink/nft/batch.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

// Whether the rules that `forward_hook` asks for are there, given that nobody has touched what we once
// made: one small dump per family.
[[nodiscard]] bool HasStaticRules(nft::Socket& socket, const ForwardHook& forward_hook);

// Appends to `batch` what is missing for `forward_hooks`, which must agree on the mark's bit; one phrase
// for each.
[[nodiscard]] std::vector<std::string> DescribeStaticRules(
    nft::Socket& socket,
    const std::vector<ForwardHook>& forward_hooks,
    nft::Batch& batch);

}  // namespace nomad_bridge::firewall
