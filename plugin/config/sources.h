// The parts of ParseConfig, one per file. Only these files include this header.
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

// Where settings come from.
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
// Leaves forward_hook.ipv6 false, because it depends on the addresses.
[[nodiscard]] RulesConfig ParseRules(const Sources& sources, const cni::PluginType& type);

// Returns whether `name` can be an interface name and has no other meaning to the kernel.
[[nodiscard]] bool IsBridgeName(std::string_view name);

// Returns whether `path` can be the path of the directory of leases.
[[nodiscard]] bool IsDirectoryPath(std::string_view path);

}  // namespace nomad_bridge::config
