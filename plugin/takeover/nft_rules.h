// What the reference plugins' iptables-nft and nftables backends hold for one attachment, found and
// removed through nf_tables, without iptables.
//
// Shapes   masquerade  nat POSTROUTING              -s <ip> comment name: "<net>" id: "<id>" -j CNI-<24 hex>
//                      inet cni_plugins_masquerade  masq_checks: comment "..., net: <net>, if: <if>, id: <id>"
//          forward     filter CNI-FORWARD           -d <ip> RELATED,ESTABLISHED ACCEPT and -s <ip> ACCEPT
//          ports       nat CNI-HOSTPORT-DNAT        comment dnat name: "<net>" id: "<id>" -j CNI-DN-<21 hex>
//                      ip, ip6 cni_hostport         hostports, hostip_hostports: comment <id>
//          Rules are recognised by these comments and addresses, an attachment's own chains by the
//          rules that jump to them; a chain whose jumps were deleted by hand stays. So do the
//          chains that all attachments share, as with the reference plugins' own DEL.
// Errors   kKernel; kTryAgain if others keep changing the ruleset.
// Legacy   Tables of iptables-legacy are invisible here: plugin/takeover/legacy_rules.h.
// Source   CNI plugins 1.1.1 to 1.9.1: pkg/ip/ipmasq_*.go, plugins/meta/{firewall,portmap}.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "netlink/nft/socket.h"
#include "plugin/cni/plugin_type.h"

namespace nomad_bridge::takeover {

// The comment on the jump to the attachment's chain for masquerading; with "dnat " before it, on
// that to the chain for its ports.
[[nodiscard]] std::string ReferenceComment(const AttachmentId& id);

// Whether `chain` is named like a chain that belongs to one attachment alone.
[[nodiscard]] bool IsOwnReferenceChain(const std::string& chain);

struct ReferenceRule {
  cni::Part part = cni::Part::kMasquerade;
  nft::TableId table;
  std::string chain;
  std::uint64_t handle = 0;
  std::string own_chain;  // that it jumps to, if it is the attachment's own; else empty
};

// Those of `id` that make up `parts`. `addresses` are those it had: nothing else identifies the
// rules of CNI-FORWARD.
[[nodiscard]] std::vector<ReferenceRule> FindReferenceRules(nft::Socket& socket,
                                                            const AttachmentId& id,
                                                            const std::vector<Ip>& addresses,
                                                            const cni::Parts& parts);

// Removes `rules` and the chains of their own, in one atomic batch.
void RemoveReferenceRules(nft::Socket& socket, const std::vector<ReferenceRule>& rules);

}  // namespace nomad_bridge::takeover
