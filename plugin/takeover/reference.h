// Attachments that the reference plugins made, on a node that is being moved over to us. Nothing of
// ours is there, but leases in the common format, a veth pair under a foreign name, and rules in
// nf_tables, removed without iptables. CHECK compares lease, interface and that each part has
// rules; DEL and a new ADD remove them. Rules in tables of iptables-legacy are left alone
// (docs/moving.md).
//
// Shapes   masquerade  nat POSTROUTING              -s <ip> comment name: "<net>" id: "<id>" -j
//          CNI-<24 hex>
//                      inet cni_plugins_masquerade  masq_checks: comment "..., net: <net>, if:
//                                                   <if>, id: <id>"
//          forward     filter CNI-FORWARD           -d <ip> RELATED,ESTABLISHED ACCEPT and -s <ip>
//                      ACCEPT
//          ports       nat CNI-HOSTPORT-DNAT        comment dnat name: "<net>" id: "<id>" -j
//                      CNI-DN-<21 hex> ip, ip6 cni_hostport         hostports, hostip_hostports:
//                      comment <id>
//          Rules are recognised by these comments and addresses, an attachment's own chains by the
//          rules that jump to them; a chain whose jumps were deleted by hand stays. So do the
//          chains that all attachments share, as with the reference plugins' own DEL.
// Parts    Of cni::Parts only masquerade, forward and ports have rules; others are ignored.
// Errors   kKernel, kTryAgain
// Locks    The attachment's own must be held.
// Source   CNI plugins 1.1.1 to 1.9.1: pkg/ip/ipmasq_*.go, plugins/meta/{firewall,portmap}.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "netlink/nft/socket.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/cni/request.h"
#include "plugin/config/config.h"
#include "plugin/link/container.h"
#include "plugin/state/host.h"

namespace nomad_bridge::takeover {

// What is looked for: the rules that make up `parts` of one attachment. Nothing but the addresses
// it had identifies those that accept its packets.
struct Search {
  AttachmentId id;
  std::vector<Ip> addresses;
  cni::Parts parts;
};

// Whether a reference plugin made the attachment that `config` has the result of, given that we
// have no record of it: it has no link of ours, but its addresses are leased to it.
[[nodiscard]] bool IsReferenceMade(state::Host& host,
                                   const cni::Request& request,
                                   const config::Config& config);

// The rules, each chain read once: for as long as nobody needs to see what others change.
class RuleDumps {
 public:
  explicit RuleDumps(nft::Socket& socket) : socket_(socket) {}
  // Only those that hold `text`: of an attachment, its container's id in a comment.
  RuleDumps(nft::Socket& socket, const std::string& text) : socket_(socket), texts_{text} {}

  // None if there is no such table.
  [[nodiscard]] const std::vector<nft::KernelRule>& Of(const nft::TableId& table,
                                                       const std::string& chain);
  // This one has been removed.
  void Forget(const nft::TableId& table, const std::string& chain, std::uint64_t handle);
  void ReadAgain() { *this = RuleDumps(socket_); }

 private:
  std::reference_wrapper<nft::Socket> socket_;
  std::vector<std::string> texts_;
  std::optional<std::vector<nft::KernelTable>> tables_;
  std::map<std::pair<std::string, std::string>, std::vector<nft::KernelRule>> rules_;
};

// Whether a rule of the reference's firewall plugin accepts packets from or to `address`.
[[nodiscard]] bool IsAccepted(nft::Socket& socket, const Ip& address);

// Whether rules of the reference plugins belong to `id`. One dump where no table of theirs is
// there.
[[nodiscard]] bool HasReferenceRules(const AttachmentId& id, RuleDumps& dumps);

// Removes them. `dumps`: for many in turn, that the rules are read once.
void RemoveReferenceRulesOf(state::Host& host, const Search& search, RuleDumps& dumps);
void RemoveReferenceRulesOf(state::Host& host, const Search& search);

// Deletes the container's interface, from inside, if it is one end of a pair whose other end is a
// port of `bridge` without an alias: a reference plugin's.
void EnsureReferenceLinkGone(state::Host& host,
                             link::Container& container,
                             const cni::Request& request,
                             const std::string& bridge);

// What is missing on the host's side of the attachment whose result is config.prev_result: leases,
// and rules for the parts that `type` provides. One mismatch each.
[[nodiscard]] std::vector<std::string> DiffReference(state::Host& host,
                                                     const cni::Request& request,
                                                     const cni::PluginType& type,
                                                     const config::Config& config);

}  // namespace nomad_bridge::takeover
