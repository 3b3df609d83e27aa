// What an operator says of a node, in /etc/nomad-bridge/config.json: for commands and for what
// Nomad's own networks have no place for in a CNI config.
//
// Shape   {"ignore": ["ports.world"], "policy": {"required": true}}; all keys may be missing
// Errors  kInvalidConfig: msg names file, key and value; kDecode; kIo. No file: the defaults. What
//         is wrong with `ignore` alone is a value.
#pragma once

#include <string>
#include <vector>

namespace nomad_bridge::config {

constexpr const char* kNodeConfigFile = "/etc/nomad-bridge/config.json";

struct NodeConfig {
  std::vector<std::string> ignore;  // checks of doctor, by their ids; as far as it can be read
  std::string ignore_error;         // why the rest of it cannot
  bool policy_required = false;     // no ADD before policies were applied
};

[[nodiscard]] NodeConfig ReadNodeConfig();

}  // namespace nomad_bridge::config
