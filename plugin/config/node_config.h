// The operator's settings of a node, in /etc/nomad-bridge/config.json: for commands, and for
// Nomad's own networks, whose CNI configs have no place for them.
//
// Shape   {"ignore": ["ports.world"], "policy": {"required": true},
//         "nonMasqueradeCIDRs": ["10.0.0.0/8"], "metricsDirectory": "/srv/textfiles"}; all keys
//         may be missing. Comments are // and /* */.
// Errors  kInvalidConfig if the file does not show whether policies are required; msg is
//         "FILE:LINE:COLUMN: ...". kIo. Any other mistake becomes a text in `problems`. If there is
//         no file, the defaults apply.
#pragma once

#include <string>
#include <vector>

#include "base/ip.h"

namespace nomad_bridge::config {

constexpr const char* kNodeConfigFile = "/etc/nomad-bridge/config.json";

struct NodeConfig {
  std::vector<std::string> ignore;    // ids of doctor's checks, as far as they can be read
  std::vector<std::string> problems;  // what was not read from the file, with place and reason
  bool policy_required = false;       // no ADD before policies have been applied
  std::vector<Cidr> non_masquerade_cidrs = {};  // for all networks, besides their own
  std::string metrics_directory = {};           // of node_exporter's textfiles; empty: a usual one
};

[[nodiscard]] NodeConfig ReadNodeConfig();

}  // namespace nomad_bridge::config
