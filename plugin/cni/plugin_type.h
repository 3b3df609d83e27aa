// The parts of an attachment, in the order ADD makes them (DEL goes backwards), and the plugin
// types this binary answers to: one table from the name it was started under to the parts that it
// makes, and its defaults. Another name is another row. One process may make all parts, or several
// processes one after the other, each under a name of its own.
//
// Shapes  records hold a part's Text(): "loopback", "address", "link", "masquerade", "forward",
//         "ports".
// Source  the reference plugins' documentation; nomad/client networking_bridge_linux.go.
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
  kForward,     // the node forwards for it
  kPorts,       // published ports
};

using Parts = std::set<Part>;

[[nodiscard]] std::string_view Text(Part part);
[[nodiscard]] std::optional<Part> ParsePart(std::string_view text);

// What a key means if the config does not have it.
struct Defaults {
  std::string bridge;
  std::string data_dir;
  // Empty: no addresses (a bare link).
  std::string ipam_type;
  // As in the reference host-local: another IPAM plugin may run this one with its own name there.
  bool ignores_ipam_type = false;
  // Of the one range, if the config has neither ranges nor subnet; empty: ranges are required.
  std::string subnet;
  std::string admin_chain;
  std::string inbound = "any";
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
  // To ADD's result. The reference bridge plugin drops prevResult, and plugins behind it count on
  // that: the bridge is interface 0.
  bool appends_prev_result = true;

  [[nodiscard]] bool Provides(Part part) const { return parts.contains(part); }
  // Whether any of its parts has rules in nf_tables.
  [[nodiscard]] bool ProvidesRules() const;
};

// The row for `program` (argv[0]); nomad-bridge's for a name that is not in the table.
[[nodiscard]] const PluginType& TypeOf(std::string_view program);

// Every name of the table, our own first: what `install` creates.
[[nodiscard]] std::vector<std::string> PluginTypeNames();

}  // namespace nomad_bridge::cni
