#include "plugin/rules/bridge_family.h"

#include "base/error.h"
#include "base/log.h"
#include "firewall/port_filter.h"

namespace nomad_bridge::rules {

config::Config WithoutUnsupportedDefaults(config::Config config, state::Host& host) {
  const bool is_isolated = config.rules.ingress == firewall::Ingress::kIsolated;
  if ((!config.link.port.source_check && !is_isolated) || firewall::HasBridgeFamily(host.nft)) {
    return config;
  }
  constexpr const char* kWhy =
      "the kernel has no bridge family of nf_tables (CONFIG_NF_TABLES_BRIDGE)";
  // Refuses what the operator requests. Leaves out what is only a default, and logs a line.
  if (is_isolated) {
    throw Error(Code::kUnsupportedField, "unsupported 'ingressPolicy': \"isolated\"", kWhy);
  }
  if (config.link.requires_source_check) {
    throw Error(Code::kUnsupportedField, "unsupported 'sourceCheck': true", kWhy);
  }
  LogLine("what allocations send is not checked (sourceCheck): {}", kWhy);
  config.link.port.source_check = false;
  return config;
}

}  // namespace nomad_bridge::rules
