// What the reference plugins' iptables and nftables backends hold for one attachment, so that a
// node can be moved over to us while its allocations live: found, verified and removed through
// nf_tables, without iptables.
//
//   masquerade  nat POSTROUTING                   -s <ip> comment name: "<net>" id: "<id>" -j CNI-<24 hex>
//               inet cni_plugins_masquerade       masq_checks: comment "..., net: <net>, if: <if>, id: <id>"
//   forward     filter CNI-FORWARD                -d <ip> RELATED,ESTABLISHED ACCEPT and -s <ip> ACCEPT
//   ports       nat CNI-HOSTPORT-DNAT             comment dnat name: "<net>" id: "<id>" -j CNI-DN-<21 hex>
//               ip, ip6 cni_hostport              hostports, hostip_hostports: comment <id>
//
// Known    Rules are told by these comments and addresses, chains by the rules that jump to them:
//          nothing that another attachment owns is touched. A chain whose jumps somebody has deleted
//          by hand is nobody's, and stays.
// Shared   The chains that all attachments share stay, as with the reference plugins' own DEL.
// Legacy   Tables of iptables-legacy are not seen here: plugin/takeover/legacy_rules.h.
// Source   CNI plugins 1.1.1 to 1.9.1: pkg/ip/ipmasq_*.go, plugins/meta/{firewall,portmap}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::takeover {

enum class ReferencePart { kMasquerade, kForward, kPorts };

// The comment on the jump to its chain for masquerading; with "dnat " before it, on that to the one
// for its ports.
[[nodiscard]] std::string ReferenceComment(const AttachmentId& id);

// Chains of one attachment alone have these names; a jump elsewhere is not its to follow.
[[nodiscard]] bool IsOwnReferenceChain(const std::string& chain);

// Whether there is any table that may hold such rules of an attachment without an address. One dump.
[[nodiscard]] bool MayHaveReferenceRules(nft::Socket& socket);

struct ReferenceRule {
  ReferencePart part = ReferencePart::kMasquerade;
  nft::TableId table;
  std::string chain;
  std::uint64_t handle = 0;
  std::string own_chain;  // that it jumps to, and nobody else does; empty: none
};

// All of `id`, in the order of the parts. `addresses` are those it had: CNI-FORWARD knows nothing
// else.
[[nodiscard]] std::vector<ReferenceRule> FindReferenceRules(nft::Socket& socket,
                                                            const AttachmentId& id,
                                                            const std::vector<Ip>& addresses);

// How many rules do what `rules` are for, masquerade or lead to the container: those in the chains of
// their own, or they themselves.
[[nodiscard]] std::size_t CountEffects(nft::Socket& socket,
                                       const std::vector<ReferenceRule>& rules);

// Removes `rules` and the chains of their own, in one atomic batch.
void RemoveReferenceRules(nft::Socket& socket, const std::vector<ReferenceRule>& rules);

}  // namespace nomad_bridge::takeover
