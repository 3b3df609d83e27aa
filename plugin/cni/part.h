// The parts of an attachment, in the order ADD makes them. DEL goes backwards.
//
// One process may make them all, or several processes one after the other, each under a name of its
// own (plugin_type.h).
//
// Shapes  records hold a part's Text(): "loopback", "address", "link", "masquerade", "forward",
//         "ports".
#pragma once

#include <optional>
#include <set>
#include <string_view>

namespace nomad_bridge::cni {

enum class Part {
  kLoopback,    // the container's lo is up
  kAddress,     // leases
  kLink,        // bridge, veth pair, the container's interface with its addresses and routes
  kMasquerade,  // packets leave the node with the node's address
  kForward,     // the node forwards for it
  kPorts,       // published ports
};

using Parts = std::set<Part>;

[[nodiscard]] std::string_view Text(Part part);
[[nodiscard]] std::optional<Part> ParsePart(std::string_view text);

}  // namespace nomad_bridge::cni
