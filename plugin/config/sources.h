// The parts of ParseConfig, one per file; nobody else includes this.
//
// Errors  as in config.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plugin/cni/args.h"
#include "plugin/cni/json.h"
#include "plugin/config/config.h"

namespace nomad_bridge::config {

// Where settings come from, besides the config's own keys.
struct Sources {
  cni::JsonView config;
  std::optional<cni::JsonView> ipam;     // config.ipam
  std::optional<cni::JsonView> runtime;  // config.runtimeConfig: from the runtime's capabilities
  std::optional<cni::JsonView> cni;      // config.args.cni: the older way
  cni::Args args;                        // CNI_ARGS
  std::string cni_version;
};

[[nodiscard]] LinkConfig ParseLink(const Sources& sources, const cni::Defaults& defaults);
// Isolation, VLANs and MAC check of its port; `link` has everything else.
void ParsePort(const cni::JsonView& config, LinkConfig& link);
[[nodiscard]] IpamConfig ParseIpam(const Sources& sources, const cni::Defaults& defaults);
// Whether IPv6 is in use depends on the addresses: policy.ipv6 is left false.
[[nodiscard]] RulesConfig ParseRules(const Sources& sources, const cni::PluginType& type);

// kUnsupportedField for `field`; `way_out` says what to do instead.
[[nodiscard]] Error Unsupported(const cni::JsonView& field, std::string_view way_out);

// Whether `name` can be the bridge's: an interface name that means no other thing to the kernel.
[[nodiscard]] bool IsBridgeName(std::string_view name);

// Whether `path` can be the leases' folder.
[[nodiscard]] bool IsFolderPath(std::string_view path);

}  // namespace nomad_bridge::config
