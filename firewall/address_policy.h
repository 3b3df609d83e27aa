// Describes what may happen to an attachment's packets, as elements of our table's sets. Some
// elements name its addresses, others the bridge that its packets come from.
//
// Shapes  Elements for addresses carry a comment and belong to one attachment. Elements for bridges
//         have no comment and are shared. Names of interfaces are padded with zeros to 16 bytes.
// Errors  kKernel from the functions with a socket; the others are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ip.h"
#include "firewall/forward_hook.h"
#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

struct AddressPolicy {
  Ip address;
  bool forward = true;          // alloc4/6: the node forwards for it
  bool masquerade = false;      // masq4/6: its packets leave with the node's address (ipMasq)
  bool masquerade_lan = false;  // masqlan4/6: the same on a bridge without our gateway
  bool random_ports = false;    // randomports4/6: the source ports are random, too (randomPorts)
  // snat4/6: packets to its published ports get the bridge's address as source if replies would
  // otherwise bypass the node (snat)
  bool snat = false;
  bool masquerade_all = false;  // masqall4/6: all packets to its published ports get it (masqAll)
  Inbound inbound = Inbound::kAny;
};

// The elements of `policies`, each with `comment`.
[[nodiscard]] std::vector<nft::Element> Elements(const std::vector<AddressPolicy>& policies,
                                                 const std::string& comment);

// Return the element that makes `bridge` one of ours, and the element that marks it as a bridge
// with a gateway.
[[nodiscard]] nft::Element BridgeElement(const std::string& bridge);
[[nodiscard]] nft::Element GatewayElement(const std::string& bridge);

// The elements that `ingress` needs for `bridge`, and the elements that the bridge must not have.
struct IngressElements {
  std::vector<nft::Element> add;
  std::vector<nft::Element> remove;
};
[[nodiscard]] IngressElements ElementsFor(Ingress ingress, const std::string& bridge);

// Returns the element of alloc4/6 for `address`, whichever owner it has; nullopt if there is no
// such element, or no table.
[[nodiscard]] std::optional<nft::Element> FindAddress(nft::Socket& socket, const Ip& address);

}  // namespace nomad_bridge::firewall
