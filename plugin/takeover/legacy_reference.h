// The reference plugins' rules (plugin/takeover/legacy_rules.h) in tables of iptables-legacy, where such
// are in use: found, verified and removed by iptables-legacy's own tools.
//
// Costs    A tool for each table and family in use that may hold what is asked for, and one for each
//          that is changed; nothing is started where none is in use.
// Errors   kKernel, naming the tool that is missing or fails. Without any address a missing one is
//          only said so on stderr.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "plugin/takeover/legacy_rules.h"
#include "portmap/mapping.h"

namespace nomad_bridge::takeover {

using ReferenceParts = std::set<ReferencePart>;

// What one table holds of an attachment.
struct LegacyFinding {
  Family family = Family::kIpv4;
  std::string table;
  std::vector<LegacyReferenceRule> rules;  // at least one

  bool operator==(const LegacyFinding&) const = default;
};

// All that `id` has of `parts`. `addresses` are those it had.
[[nodiscard]] std::vector<LegacyFinding> FindLegacyReferenceRules(const AttachmentId& id,
                                                                  const std::vector<Ip>& addresses,
                                                                  const ReferenceParts& parts);

// Removes that.
void RemoveLegacyReferenceRules(const AttachmentId& id,
                                const std::vector<Ip>& addresses,
                                const ReferenceParts& parts);

// Whether `findings` have all of `part`, for each of `addresses` and `ports`.
[[nodiscard]] bool IsWhole(const std::vector<LegacyFinding>& findings,
                           ReferencePart part,
                           const std::vector<Ip>& addresses,
                           const std::vector<portmap::PortMapping>& ports);

}  // namespace nomad_bridge::takeover
