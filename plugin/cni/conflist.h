// Network configs as files of a runtime: lists of plugins (*.conflist), and single ones (*.conf,
// *.json).
//
// Shapes  {"cniVersion", "name", "plugins": [{"type", ...}, ...]}, or one such plugin with a name
//         of its own. A plugin of a list is configured with the list's name and version.
// Errors  kIo if a file cannot be read; kDecode, kInvalidConfig naming file and key.
// Source  CNI specification 1.1.0, "Network configuration format"; libcni's ConfFiles.
#pragma once

#include <string>
#include <vector>

#include "plugin/cni/json.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::cni {

// `path`, or if that is a directory the configs in it, by name; none if it does not exist. Of
// /etc/cni/net.d only those with a plugin of type nomad-bridge: podman and other runtimes have
// their networks there, made of plugins that have the other names that we go by.
[[nodiscard]] std::vector<std::string> FindConfigFiles(const std::string& path);

// Those of Nomad, or if there are none those of other runtimes.
[[nodiscard]] std::vector<std::string> FindDefaultConfigFiles();

struct PluginConfig {
  std::string type;
  Request request;  // an ADD, without an attachment
};

// All plugins of a file in their order, ours and others'.
[[nodiscard]] std::vector<PluginConfig> ReadPluginConfigs(const std::string& path);

// The same, with the file as a whole.
struct ConfigDocument {
  JsonPtr document;
  std::vector<PluginConfig> plugins;
};
[[nodiscard]] ConfigDocument ReadConfigDocument(const std::string& path);

}  // namespace nomad_bridge::cni
