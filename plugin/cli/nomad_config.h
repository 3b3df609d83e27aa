// What the config of this node's Nomad says about CNI.
//
// Shapes   /etc/nomad.d/*.hcl and *.json, in the order of their names: the last file that sets a
//          key decides, as for Nomad. HCL in any layout, even on one line; JSON.
// Errors   none: a file that cannot be read is skipped
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/cni/conflist.h"
#include "plugin/config/config.h"

namespace nomad_bridge::cli {

// Returns the value of `key = "..."` in HCL, or of `"key": "..."` in JSON, anywhere outside of
// comments; empty if there is none.
[[nodiscard]] std::string FindSetting(std::string_view config, std::string_view key);

// CNI_PATH, or Nomad's cni_path, or else /opt/cni/bin: at least one.
[[nodiscard]] std::vector<std::string> PluginDirectories();

// The network configs in Nomad's cni_config_dir, or where Nomad and other runtimes look.
[[nodiscard]] std::vector<std::string> FindNodeConfigFiles();

// Returns the config as an ADD would parse it; nullopt for another plugin than ours. Throws for
// what an ADD refuses.
[[nodiscard]] std::optional<config::Config> FindConfig(const cni::PluginConfig& plugin);

}  // namespace nomad_bridge::cli
