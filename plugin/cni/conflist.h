// Network configs in the files of a runtime: lists of plugins (*.conflist), and single plugins
// (*.conf, *.json).
//
// Shapes  {"cniVersion", "name", "plugins": [{"type", ...}, ...]}, or one such plugin with its own
//         name. A plugin of a list has the list's name and version.
// Errors  kIo if a file cannot be read; kDecode, kInvalidConfig; the errors name file and key.
// Source  CNI specification 1.1.0, "Network configuration format"; libcni's ConfFiles.
#pragma once

#include <string>
#include <vector>

#include "plugin/cni/json.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::cni {

constexpr const char* kNomadDirectory = "/opt/cni/config";  // without cni_config_dir
constexpr const char* kSharedDirectory = "/etc/cni/net.d";  // of other runtimes

// Returns `path` or, if it is a directory, the configs in it, sorted by name; none if it does not
// exist. From /etc/cni/net.d returns only configs with a plugin of type nomad-bridge: podman and
// other runtimes keep their networks there, and use plugins with our other names.
[[nodiscard]] std::vector<std::string> FindConfigFiles(const std::string& path);

// Returns Nomad's configs or, if there are none, the configs of other runtimes.
[[nodiscard]] std::vector<std::string> FindDefaultConfigFiles();

struct PluginConfig {
  std::string type;
  Request request;  // an ADD, without an attachment
};

// Returns all plugins of a file in their order, ours and others'.
[[nodiscard]] std::vector<PluginConfig> ReadPluginConfigs(const std::string& path);

// The plugins of a file, and the file as a whole.
struct ConfigDocument {
  JsonPtr document;
  std::vector<PluginConfig> plugins;
};
[[nodiscard]] ConfigDocument ReadConfigDocument(const std::string& path);

}  // namespace nomad_bridge::cni
