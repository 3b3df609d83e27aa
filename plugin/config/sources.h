// The parts of ParseConfig, one per file; no other code includes this.
//
// Errors  kInvalidConfig, kUnsupportedField.
// Owner   Sources points into the request's config, which must outlive it.
#pragma once

#include <string>
#include <string_view>

#include "plugin/cni/args.h"
#include "plugin/cni/json.h"
#include "plugin/config/config.h"

namespace nomad_bridge::config {

using cni::JsonView;

// Where settings come from, besides the config's own keys.
struct Sources {
  JsonView config;
  JsonView ipam;     // config.ipam
  JsonView runtime;  // config.runtimeConfig: from the runtime's capabilities
  JsonView cni;      // config.args.cni: the CNI conventions
  cni::Args args;    // CNI_ARGS
  std::string cni_version;
  bool is_add = false;
};

[[nodiscard]] LinkConfig ParseLink(const Sources& sources, const cni::Defaults& defaults);
[[nodiscard]] IpamConfig ParseIpam(const Sources& sources, const cni::Defaults& defaults);
// forward_hook.ipv6 is left false: it depends on the addresses.
[[nodiscard]] RulesConfig ParseRules(const Sources& sources, const cni::PluginType& type);

// An interface's name that does not mean something else to the kernel.
[[nodiscard]] bool IsBridgeName(std::string_view name);

// Whether `path` can be that of the directory of leases.
[[nodiscard]] bool IsDirectoryPath(std::string_view path);

}  // namespace nomad_bridge::config
