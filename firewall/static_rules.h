// Static rules in the tables of iptables. An accept in our table cannot undo a drop in another base
// chain, and Docker and many hosts drop in FORWARD. So a few rules accept our mark there.
//
//   table ip filter (ip6 filter too where a network has IPv6)
//     FORWARD      first:  jump CNI-FORWARD          comment "CNI firewall plugin rules"
//     CNI-FORWARD  first:  jump <admin chain>        comment "CNI firewall plugin admin overrides"
//                  then:   meta mark & 0x1000 == 0x1000 accept         comment "nomad-bridge: ..."
//     <admin chain>        the operator's: created empty if absent, never touched again
//
// Shapes  We use only expressions that iptables-nft 1.8.7-1.8.11 decodes, so that `iptables -S` and
//         `iptables-save` go on working. Chain names and comments are the reference firewall
//         plugin's, so that its checks (iptables -C) find them; the same rules in iptables-nft's
//         encoding, or without their comments, are recognized and not added again.
// Errors  kKernel from reading.
// Source  CNI plugins, firewall's iptables backend; iptables-nft's nft-shared.c.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "firewall/forward_hook.h"
#include "netlink/nft/batch.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

// Names of chains and comments, also for the tables of iptables-legacy
// (plugin/foreign/other_firewalls.h).
constexpr const char* kForward = "FORWARD";
constexpr const char* kCniForward = "CNI-FORWARD";
constexpr const char* kJumpComment = "CNI firewall plugin rules";
constexpr const char* kAdminComment = "CNI firewall plugin admin overrides";
constexpr const char* kAcceptComment = "nomad-bridge: accepted by table inet nomad-bridge";

// Appends to `batch` what is missing for `forward_hooks`, which must agree on the mark's bit, and
// the deletion of our rules that accept another mark. Returns one finding for each missing rule.
[[nodiscard]] FindingList PlanStaticRules(nft::Socket& socket,
                                          const std::vector<ForwardHook>& forward_hooks,
                                          nft::Batch& batch);

// Appends to `batch` the deletion of our rules that accept a mark, in both families; without a
// comment, only rules that accept bit `mark_bit`. Returns these rules, for people. Leaves the
// chains and jumps, which belong to the reference plugin and the operator, too.
[[nodiscard]] std::vector<std::string> PlanAcceptsGone(nft::Socket& socket,
                                                       int mark_bit,
                                                       nft::Batch& batch);

}  // namespace nomad_bridge::firewall
