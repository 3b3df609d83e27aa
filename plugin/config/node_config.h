// What an operator says of a node, in /etc/nomad-bridge/config.json: for commands and for what
// Nomad's own networks have no place for in a CNI config.
//
// Shape   {"ignore": ["ports.world"], "policy": {"required": true}}; all keys may be missing.
//         Comments are // and /* */.
// Errors  kInvalidConfig: msg is "FILE:LINE:COLUMN: ...", where it cannot be told whether policies
//         are required. kIo. No file: the defaults. Anything else that is wrong is a value.
#pragma once

#include <string>
#include <vector>

namespace nomad_bridge::config {

constexpr const char* kNodeConfigFile = "/etc/nomad-bridge/config.json";

struct NodeConfig {
  std::vector<std::string> ignore;    // checks of doctor, by their ids; as far as it can be read
  std::vector<std::string> problems;  // what of the file is not read, and why: each with its place
  bool policy_required = false;       // no ADD before policies were applied
};

[[nodiscard]] NodeConfig ReadNodeConfig();

}  // namespace nomad_bridge::config
