// Reads the config of this node's Nomad agent, and finds the network configs and CNI plugins that
// the agent uses.
//
// Shapes   /etc/nomad.d/*.hcl and *.json, in the order of their names: the last file that sets a
//          key decides, as for Nomad. Reads JSON, and HCL in any layout, even on one line.
// Errors   Only FindConfig() throws. A file that cannot be read is skipped.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "plugin/cni/conflist.h"
#include "plugin/config/config.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

// Returns the value of `key = "..."` in HCL, or of `"key": "..."` in JSON, anywhere outside of
// comments; empty if there is none.
[[nodiscard]] std::string FindSetting(std::string_view config, std::string_view key);

// Returns the directories in CNI_PATH, else in Nomad's cni_path, else /opt/cni/bin: at least one.
[[nodiscard]] std::vector<std::string> PluginDirectories();

// Returns the network configs in Nomad's cni_config_dir. If Nomad does not set it, returns those in
// the directories where Nomad and other runtimes look.
[[nodiscard]] std::vector<std::string> FindNodeConfigFiles();

// Returns a warning if Nomad finds no network in `files`, which FindNodeConfigFiles() has returned:
// there is none, or it is where only other runtimes look.
[[nodiscard]] std::optional<Finding> FindNoNetwork(const std::vector<std::string>& files);

// Returns that the bridge of a network is missing and that no ADD creates it; nullopt otherwise.
[[nodiscard]] std::optional<Finding> FindMissingBridge(state::Host& host,
                                                       const cni::PluginConfig& plugin,
                                                       const config::Config& config);

// Returns the config as an ADD would parse it; nullopt if the plugin is not ours. Throws if an ADD
// would refuse the config.
[[nodiscard]] std::optional<config::Config> FindConfig(const cni::PluginConfig& plugin);

}  // namespace nomad_bridge::cli
