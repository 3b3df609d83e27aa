// What iptables-legacy-save prints, and the plan to remove one attachment's rules from it.
#include <string>

#include "plugin/takeover/legacy_rules.h"
#include "tests/fuzz/fuzz.h"

namespace nomad_bridge {

void fuzz::Run(std::string_view input) {
  const takeover::Search search{
      .id = {.network = "nomad", .container_id = "5f3c1a2b", .ifname = "eth0"},
      .addresses = {Ip::Parse("172.26.64.2").value()},
      .parts = {cni::Part::kMasquerade, cni::Part::kForward, cni::Part::kPorts}};
  const auto saved = takeover::ParseLegacySave(input);
  for (const char* const table : {takeover::kLegacyNat, takeover::kLegacyFilter}) {
    const auto rules = takeover::FindLegacyRulesIn(saved, table, search);
    static_cast<void>(takeover::PlanLegacyRemoval(table, rules));
  }
}

}  // namespace nomad_bridge
