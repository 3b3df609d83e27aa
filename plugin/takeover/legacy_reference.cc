#include "plugin/takeover/legacy_reference.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "plugin/foreign/iptables_legacy.h"

namespace nomad_bridge::takeover {
namespace {

// Where rules of `parts` may stand.
std::vector<std::string> TablesOf(const ReferenceParts& parts, const std::vector<Ip>& addresses) {
  std::vector<std::string> tables;
  if (parts.contains(ReferencePart::kMasquerade) || parts.contains(ReferencePart::kPorts)) {
    tables.emplace_back(kLegacyNat);
  }
  if (parts.contains(ReferencePart::kForward) && !addresses.empty()) {
    tables.emplace_back(kLegacyFilter);
  }
  return tables;
}

// A node on which only containers use such tables (kube-proxy) may have no tool for them. Who has no
// address any more has nothing there either, or nobody could ever remove him.
bool CanRead(Family family, const std::string& table) {
  const bool can = foreign::HasLegacyTools(family);
  if (!can) {
    LogLine("cannot look into table ",
            table,
            ", ignoring: there is no ",
            foreign::LegacyTool(family),
            "-save");
  }
  return can;
}

std::vector<LegacyReferenceRule> RulesOf(const std::vector<LegacyFinding>& findings,
                                         Family family) {
  std::vector<LegacyReferenceRule> rules;
  for (const LegacyFinding& finding : findings) {
    if (finding.family == family) {
      rules.insert(rules.end(), finding.rules.begin(), finding.rules.end());
    }
  }
  return rules;
}

bool HasPart(const std::vector<LegacyReferenceRule>& rules,
             ReferencePart part,
             const Ip& address,
             const std::vector<portmap::PortMapping>& ports) {
  switch (part) {
    case ReferencePart::kMasquerade:
      return HasMasquerade(rules, address);
    case ReferencePart::kForward:
      return HasForwardAccepts(rules, address);
    case ReferencePart::kPorts:
      break;
  }
  // One asked for in the other family only was left out.
  return std::all_of(ports.begin(), ports.end(), [&](const portmap::PortMapping& port) {
    return (port.only && *port.only != address.family()) ||
           HasDnat(rules, portmap::Text(port.protocol), port.host_port);
  });
}

}  // namespace

std::vector<LegacyFinding> FindLegacyReferenceRules(const AttachmentId& id,
                                                    const std::vector<Ip>& addresses,
                                                    const ReferenceParts& parts) {
  std::vector<LegacyFinding> findings;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const std::string& table : TablesOf(parts, addresses)) {
      if (!foreign::IsLegacyTableInUse(family, table) ||
          (addresses.empty() && !CanRead(family, table))) {
        continue;
      }
      LegacyFinding finding{.family = family,
                            .table = table,
                            .rules = FindLegacyReferenceRules(
                                table, foreign::SaveLegacyTable(family, table), id, addresses)};
      std::erase_if(finding.rules,
                    [&](const LegacyReferenceRule& rule) { return !parts.contains(rule.part); });
      if (!finding.rules.empty()) {
        findings.push_back(std::move(finding));
      }
    }
  }
  return findings;
}

void RemoveLegacyReferenceRules(const AttachmentId& id,
                                const std::vector<Ip>& addresses,
                                const ReferenceParts& parts) {
  std::vector<LegacyFinding> found = FindLegacyReferenceRules(id, addresses, parts);
  while (!found.empty()) {
    try {
      for (const LegacyFinding& finding : found) {
        foreign::ChangeLegacyTable(finding.family, PlanLegacyRemoval(finding.table, finding.rules));
      }
      return;
    } catch (const Error&) {
      // A rule that somebody else has taken away meanwhile makes the tool refuse the whole plan.
      std::vector<LegacyFinding> left = FindLegacyReferenceRules(id, addresses, parts);
      if (left == found) {
        throw;
      }
      found = std::move(left);
    }
  }
}

bool IsWhole(const std::vector<LegacyFinding>& findings,
             ReferencePart part,
             const std::vector<Ip>& addresses,
             const std::vector<portmap::PortMapping>& ports) {
  return !findings.empty() &&
         std::all_of(addresses.begin(), addresses.end(), [&](const Ip& address) {
           return HasPart(RulesOf(findings, address.family()), part, address, ports);
         });
}

}  // namespace nomad_bridge::takeover
