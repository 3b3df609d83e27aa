#include <set>

#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "firewall/static_rules.h"
#include "plugin/cli/doctor_checks.h"
#include "plugin/foreign/tools.h"
#include "plugin/rules/forward_hooks.h"

namespace nomad_bridge::cli {
namespace {

enum class Kind { kTable, kStatic, kOrphan };

Kind KindOf(const std::string& mismatch) {
  if (mismatch.starts_with("the left-over ")) {
    return Kind::kOrphan;
  }
  const bool is_static = mismatch.starts_with("the forwarding rules in table ") ||
                         mismatch.find(firewall::kCniForward) != std::string::npos;
  return is_static ? Kind::kStatic : Kind::kTable;
}

std::vector<std::string> MismatchesOf(Examination& node, Kind kind) {
  std::vector<std::string> found;
  for (const std::string& mismatch : node.RuleMismatches()) {
    if (KindOf(mismatch) == kind) {
      found.push_back(mismatch);
    }
  }
  return found;
}

int MarkBitOf(Examination& node) {
  for (const Attachment* const attachment : node.running) {
    if (rules::HasForwardHook(*attachment->record)) {
      return attachment->record->rules.forward_hook.accept_mark_bit;
    }
  }
  return firewall::ForwardHook().accept_mark_bit;
}

bool IsFirewalldThere(Examination& node) {
  return node.host.nft.FindTable({nft::TableFamily::kInet, "firewalld"}).has_value();
}

// The interfaces in any zone, by firewalld's own tool.
std::set<std::string> InterfacesInZones(const std::string& tool) {
  std::set<std::string> found;
  std::string word;
  for (const char c : foreign::RunTool(tool, {"--get-active-zones"}).out) {
    if (c == ' ' || c == '\n') {
      found.insert(std::exchange(word, {}));
    } else {
      word += c;
    }
  }
  return found;
}

}  // namespace

Diagnoses CheckTable(Examination& node) {
  std::vector<std::string> mismatches = MismatchesOf(node, Kind::kTable);
  if (!mismatches.empty()) {
    mismatches.front().insert(0, "missing or changed: ");
  }
  return AllAs(Verdict::kFail, mismatches, kReconcileFix);
}

Diagnoses CheckStaticRules(Examination& node) {
  std::vector<std::string> mismatches = MismatchesOf(node, Kind::kStatic);
  if (!mismatches.empty()) {
    mismatches.front().insert(0, "missing or changed: ");
  }
  return AllAs(Verdict::kFail, mismatches, kReconcileFix);
}

Diagnoses CheckOrphanElements(Examination& node) {
  std::vector<std::string> mismatches = MismatchesOf(node, Kind::kOrphan);
  if (!mismatches.empty()) {
    mismatches.front() += " has no owner";
  }
  return AllAs(Verdict::kWarn, mismatches, kGcFix);
}

Diagnoses CheckForeignChains(Examination& node) {
  const int bit = MarkBitOf(node);
  const std::string mark = Cat("0x", Hex(std::uint64_t{1} << bit, 4));
  Diagnoses diagnoses;
  for (const std::string& chain : firewall::ForeignDrops(node.host.nft, bit)) {
    diagnoses.push_back({Verdict::kFail,
                         Cat(chain, " comes after ours and drops"),
                         Format("in that chain, first: meta mark & {} == {} accept", mark, mark)});
  }
  return diagnoses;
}

Diagnoses CheckFirewalldZone(Examination& node) {
  const std::optional<std::string> tool =
      IsFirewalldThere(node) ? foreign::FindTool("firewall-cmd") : std::nullopt;
  if (!tool || node.gateways.empty()) {
    return {};
  }
  const std::set<std::string> in_zones = InterfacesInZones(*tool);
  Diagnoses diagnoses;
  for (const auto& [ifname, record] : node.gateways) {
    const std::string& zone = record->rules.firewalld_zone;
    if (rules::HasForwardHook(*record) && !in_zones.contains(ifname)) {
      diagnoses.push_back(
          {Verdict::kFail,
           Format("'{}' is in no zone of firewalld, which rejects what comes from it", ifname),
           Format("firewall-cmd --permanent --zone={} --add-interface={} && firewall-cmd --reload",
                  zone.empty() ? "trusted" : zone,
                  ifname)});
    }
  }
  return diagnoses;
}

}  // namespace nomad_bridge::cli
