#include "plugin/rules/port_checks.h"

#include "base/error.h"
#include "base/log.h"
#include "firewall/port_filter.h"

namespace nomad_bridge::rules {

config::Config WithPossibleChecks(config::Config config, state::Host& host) {
  config::SourceCheck& check = config.link.source_check;
  const bool is_isolated = config.rules.ingress == firewall::Ingress::kIsolated;
  if ((check == config::SourceCheck::kOff && !is_isolated) || firewall::HasBridgeFamily(host.nft)) {
    return config;
  }
  constexpr const char* kWhy =
      "the kernel has no bridge family of nf_tables (CONFIG_NF_TABLES_BRIDGE)";
  if (is_isolated) {
    throw Error(Code::kUnsupportedField, "unsupported 'ingressPolicy': \"isolated\"", kWhy);
  }
  if (check == config::SourceCheck::kOn) {
    throw Error(Code::kUnsupportedField, "unsupported 'sourceCheck': true", kWhy);
  }
  LogLine("what allocations send is not checked (sourceCheck): {}", kWhy);
  check = config::SourceCheck::kOff;
  return config;
}

}  // namespace nomad_bridge::rules
