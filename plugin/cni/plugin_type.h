// The names this binary answers to: one table from the name it was started under to what it does
// and which defaults it has. A name more is a row more.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugin/cni/part.h"

namespace nomad_bridge::cni {

// What a key means if the config does not have it.
struct Defaults {
  std::string bridge;
  std::string data_dir;
  // How addresses come about if the config does not say; empty: there are none (a bare link).
  std::string ipam_type;
  // Whatever the config says, as to the reference host-local: another IPAM plugin may run this one
  // with its own name there.
  bool is_ipam = false;
  // Of the one range, if the config has neither ranges nor subnet; empty: ranges are required.
  std::string subnet;
  std::string admin_chain;
  bool is_gateway = false;
  bool is_default_gateway = false;  // unless ipam.routes is there: then the routes say it
  bool force_address = false;
  bool hairpin_mode = false;
  bool ip_masq = false;
};

struct PluginType {
  std::string name;
  Parts parts;
  Defaults defaults;
  // Whether prevResult becomes part of ADD's result. The reference bridge plugin drops it, and
  // plugins behind it count on that: the bridge is interface 0.
  bool passes_on = true;

  [[nodiscard]] bool Provides(Part part) const { return parts.contains(part); }
  // Whether rules in nf_tables belong to it.
  [[nodiscard]] bool ProvidesRules() const;
};

// The row for `program` (argv[0]); a name that is not in the table is nomad-bridge under another
// name.
[[nodiscard]] const PluginType& TypeOf(std::string_view program);

// Every name of the table, our own first: what `install` lays.
[[nodiscard]] std::vector<std::string> PluginTypeNames();

}  // namespace nomad_bridge::cni
