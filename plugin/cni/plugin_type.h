// The parts of an attachment, in the order in which ADD makes them (DEL removes them in reverse),
// and the plugin types of this binary: a table that maps the name under which the binary was
// started to the parts that it makes, and to its defaults. Each name has its row. One process may
// make all parts, or several processes under different names make them one after the other.
//
// Shapes  Records store a part's Text(): "loopback", "address", "link", "masquerade", "forward",
//         "ports".
// Source  The reference plugins' documentation; nomad/client networking_bridge_linux.go.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace nomad_bridge::cni {

enum class Part {
  kLoopback,    // the container's lo is up
  kAddress,     // leases
  kLink,        // bridge, veth pair, the container's interface with its addresses and routes
  kMasquerade,  // packets leave the node with the node's address
  kForward,     // the node forwards the container's packets
  kPorts,       // published ports
};

using Parts = std::set<Part>;

[[nodiscard]] std::string_view Text(Part part);
[[nodiscard]] std::optional<Part> ParsePart(std::string_view text);

// The values of keys that the config does not have.
struct Defaults {
  std::string bridge;
  std::string data_dir;
  // Empty: no addresses (a link without addresses).
  std::string ipam_type;
  // As in the reference host-local: another IPAM plugin may run it with its own name in ipam.type.
  bool ignores_ipam_type = false;
  // The subnet of the one range if the config has neither ranges nor subnet. Empty: the config must
  // have ranges.
  std::string subnet;
  std::string admin_chain;
  std::string inbound = "any";
  // Whether ADD creates a missing bridge that gets no gateway: it leads nowhere.
  bool makes_bridge_without_gateway = true;
  bool is_gateway = false;
  bool is_default_gateway = false;  // unless the config has ipam.routes
  bool force_address = false;
  bool hairpin_mode = false;
  bool source_check = false;
  bool ip_masq = false;
};

struct PluginType {
  std::string name;
  Parts parts;
  Defaults defaults;
  // Whether ADD's result includes prevResult. The reference bridge plugin drops prevResult, and
  // later plugins rely on this: the bridge is interface 0.
  bool appends_prev_result = true;

  [[nodiscard]] bool Provides(Part part) const { return parts.contains(part); }
  // Returns whether any of its parts has rules in nf_tables.
  [[nodiscard]] bool ProvidesRules() const;
};

// Returns the row for `program` (argv[0]); nomad-bridge's row for a name that is not in the table.
[[nodiscard]] const PluginType& TypeOf(std::string_view program);

// Returns every name of the table, "nomad-bridge" first. `install` creates these names.
[[nodiscard]] std::vector<std::string> PluginTypeNames();

}  // namespace nomad_bridge::cni
