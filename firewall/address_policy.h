// What one attachment is, in the sets of our table: its addresses, and what may happen to them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.h"
#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

struct AddressPolicy {
  Ip address;
  // may talk: the node forwards for it (alloc4/6)
  bool forward = true;
  // ipMasq: leaves the node with the node's address (set masq4/6)
  bool masquerade = false;
  // snat: reached with the bridge's address where the way back would miss it (snat4/6)
  bool snat = false;
  // masqAll: whatever is published is reached with the bridge's address (masqall4/6)
  bool masquerade_all = false;
};

// What may come to the allocations of a bridge from others that the node forwards for: the firewall
// plugin's ingressPolicy.
enum class Ingress {
  kOpen,        // anything
  kSameBridge,  // nothing from another bridge that is not open
  kIsolated,    // nothing from this bridge either
};

// "open", "same-bridge", "isolated".
[[nodiscard]] std::string_view Text(Ingress ingress);
[[nodiscard]] std::optional<Ingress> ParseIngress(std::string_view text);

// The elements of `members`, each with `comment`.
[[nodiscard]] std::vector<nft::Element> Elements(const std::vector<AddressPolicy>& policies,
                                                 const std::string& comment);

// The element that makes `bridge` one of ours; shared by every attachment on it.
[[nodiscard]] nft::Element BridgeElement(const std::string& bridge);

// The bridges that are ours so far; none if there is no table. One dump.
[[nodiscard]] std::vector<std::string> SharedBridges(nft::Socket& socket);

// The elements that `ingress` needs for `bridge`, and those that it must not have; shared, too.
struct IngressElements {
  std::vector<nft::Element> add;
  std::vector<nft::Element> remove;
};
[[nodiscard]] IngressElements ElementsFor(Ingress ingress, const std::string& bridge);

// The element of alloc4/6 for `address`, whoever's it is; nullopt if there is none, or no table.
[[nodiscard]] std::optional<nft::Element> FindAddress(nft::Socket& socket, const Ip& address);

}  // namespace nomad_bridge::firewall
