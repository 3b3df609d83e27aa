// Attachments that the reference plugins made, on a node that is moving from them to us. Such an
// attachment has nothing of ours: it has leases in the common format, a veth pair with a foreign
// name, and rules in nf_tables. We remove the rules without iptables. CHECK compares the leases and
// the interface, and checks that each part has rules. DEL and a new ADD remove all of them. Rules
// in tables of iptables-legacy stay (docs/moving.md).
//
// Shapes   masquerade  nat POSTROUTING
//                        -s <ip> comment name: "<net>" id: "<id>" -j CNI-<24 hex>
//                      inet cni_plugins_masquerade masq_checks
//                        comment "..., net: <net>, if: <if>, id: <id>"
//          forward     filter CNI-FORWARD
//                        -d <ip> RELATED,ESTABLISHED ACCEPT and -s <ip> ACCEPT
//          ports       nat CNI-HOSTPORT-DNAT
//                        comment dnat name: "<net>" id: "<id>" -j CNI-DN-<21 hex>
//                      ip, ip6 cni_hostport hostports, hostip_hostports
//                        comment <id>
//          These comments and addresses identify the rules. The rules that jump to a chain identify
//          an attachment's own chains; so a chain stays if somebody has deleted its jumps. Chains
//          that all attachments share stay, too, as after the reference plugins' own DEL.
// Parts    Only masquerade, forward and ports of cni::Parts have rules; other parts are ignored.
// Errors   kKernel, kTryAgain
// Locks    The caller holds the attachment's lock.
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
#include "portmap/mapping.h"

namespace nomad_bridge::takeover {

// Selects the rules that make up `parts` of one attachment. Rules that accept its packets can only
// be identified by its addresses.
struct Search {
  AttachmentId id;
  std::vector<Ip> addresses;
  cni::Parts parts;
};

// Returns whether a reference plugin made the attachment whose result `config` has: it has no link
// of ours, but its addresses are leased to it. To be called if we have no record of the attachment.
[[nodiscard]] bool IsReferenceMade(state::Host& host,
                                   const cni::Request& request,
                                   const config::Config& config);

// Reads the rules of each chain only once. Use it only while changes by others do not matter.
class RuleDumps {
 public:
  explicit RuleDumps(nft::Socket& socket) : socket_(socket) {}
  // Reads only rules that contain `text`, for example a container's id in a comment.
  RuleDumps(nft::Socket& socket, const std::string& text) : socket_(socket), texts_{text} {}

  // Returns the rules of a chain; none if there is no such table.
  [[nodiscard]] const std::vector<nft::KernelRule>& Of(const nft::TableId& table,
                                                       const std::string& chain);
  // Forgets a rule that has been removed.
  void Forget(const nft::TableId& table, const std::string& chain, std::uint64_t handle);
  void ReadAgain() { *this = RuleDumps(socket_); }

 private:
  std::reference_wrapper<nft::Socket> socket_;
  std::vector<std::string> texts_;
  std::optional<std::vector<nft::KernelTable>> tables_;
  std::map<std::pair<std::string, std::string>, std::vector<nft::KernelRule>> rules_;
};

// Returns whether a rule of the reference firewall plugin accepts packets from or to `address`.
[[nodiscard]] bool IsAccepted(nft::Socket& socket, const Ip& address);

// Returns whether there are such rules. Costs one dump if none of the reference plugins' tables
// exists.
[[nodiscard]] bool HasReferenceRules(const Search& search, RuleDumps& dumps);
// The same for the rules that can be found without an address.
[[nodiscard]] bool HasReferenceRules(const AttachmentId& id, RuleDumps& dumps);

// Returns the ports that rules of iptables-nft or nftables publish for the attachment.
[[nodiscard]] std::vector<portmap::DnatEntry> PublishedPorts(const AttachmentId& id,
                                                             RuleDumps& dumps);

// Removes the rules. Many calls with the same `dumps` read the rules only once.
void RemoveReferenceRulesOf(state::Host& host, const Search& search, RuleDumps& dumps);
void RemoveReferenceRulesOf(state::Host& host, const Search& search);

// Deletes the container's interface, from inside, if it is one end of a pair whose other end is a
// port of `bridge` without an alias. A reference plugin made such a pair.
void EnsureReferenceLinkGone(state::Host& host,
                             link::Container& container,
                             const cni::Request& request,
                             const std::string& bridge);

// Checks the host's side of the attachment whose result is config.prev_result. Returns one finding
// for each missing lease, and for each part of `type` that has no rules.
[[nodiscard]] std::vector<std::string> DiffReference(state::Host& host,
                                                     const cni::Request& request,
                                                     const cni::PluginType& type,
                                                     const config::Config& config);

}  // namespace nomad_bridge::takeover
