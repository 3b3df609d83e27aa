// The reference plugins' rules (firewall/legacy_reference.h) in tables of iptables-legacy, where such
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

#include "base/attachment.h"
#include "base/ip.h"
#include "firewall/legacy_reference.h"
#include "portmap/mapping.h"

namespace nomad_bridge {

using ReferenceParts = std::set<firewall::ReferencePart>;

// What one table holds of an attachment.
struct LegacyFinding {
  Family family = Family::kIpv4;
  std::string table;
  std::vector<firewall::LegacyReferenceRule> rules;  // at least one

  bool operator==(const LegacyFinding&) const = default;
};

// All that `who` has of `parts`. `addresses` are those it had.
[[nodiscard]] std::vector<LegacyFinding> FindLegacyReferenceRules(const Attachment& who,
                                                                  const std::vector<Ip>& addresses,
                                                                  const ReferenceParts& parts);

// Removes that.
void RemoveLegacyReferenceRules(const Attachment& who,
                                const std::vector<Ip>& addresses,
                                const ReferenceParts& parts);

// Whether `findings` have all of `part`, for each of `addresses` and `ports`.
[[nodiscard]] bool IsWhole(const std::vector<LegacyFinding>& findings,
                           firewall::ReferencePart part,
                           const std::vector<Ip>& addresses,
                           const std::vector<portmap::Published>& ports);

}  // namespace nomad_bridge
