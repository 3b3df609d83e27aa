#include <array>
#include <iterator>
#include <set>
#include <sstream>

#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "plugin/cli/doctor.h"
#include "plugin/foreign/tools.h"
#include "plugin/rules/forward_hooks.h"

namespace nomad_bridge::cli {
namespace {

using Area = Mismatch::Area;

int MarkBitOf(Examination& node) {
  for (const Attachment* const attachment : node.running) {
    if (rules::HasForwardHook(*attachment->record)) {
      return attachment->record->rules.forward_hook.accept_mark_bit;
    }
  }
  return firewall::ForwardHook().accept_mark_bit;
}

// The interfaces in any zone, by firewalld's own tool.
std::set<std::string> InterfacesInZones(const std::string& tool) {
  std::istringstream words(foreign::RunTool(tool, {"--get-active-zones"}).out);
  return {std::istream_iterator<std::string>(words), {}};
}

void CheckForeignChains(Examination& node) {
  const int bit = MarkBitOf(node);
  const std::string mark = Cat("0x", Hex(std::uint64_t{1} << bit, 4));
  for (const std::string& chain : firewall::ForeignDrops(node.host.nft, bit)) {
    node.Fail(Cat(chain, " comes after ours and drops"),
              Format("in that chain, first: meta mark & {} == {} accept", mark, mark));
  }
}

void CheckFirewalldZone(Examination& node) {
  const auto table = node.host.nft.FindTable({nft::TableFamily::kInet, "firewalld"});
  const auto tool = table ? foreign::FindTool("firewall-cmd") : std::nullopt;
  if (!tool || node.gateways.empty()) {
    return;
  }
  const std::set<std::string> in_zones = InterfacesInZones(*tool);
  for (const auto& [ifname, record] : node.gateways) {
    const std::string& zone = record->rules.firewalld_zone;
    if (rules::HasForwardHook(*record) && !in_zones.contains(ifname)) {
      node.Fail(
          Format("'{}' is in no zone of firewalld, which rejects what comes from it", ifname),
          Format("firewall-cmd --permanent --zone={} --add-interface={} && firewall-cmd --reload",
                 zone.empty() ? "trusted" : zone,
                 ifname));
    }
  }
}

constexpr std::array kRulesTable = {
    Check{"table.intact", Cost::kCheap, CheckByReconcile<Area::kTable, Area::kElement>},
    Check{"static_rules", Cost::kCheap, CheckByReconcile<Area::kStaticRules>},
    Check{"forward.foreign", Cost::kCheap, CheckForeignChains},
    Check{"firewalld.zone", Cost::kDear, CheckFirewalldZone},
    Check{"ports.orphan", Cost::kCheap, CheckByReconcile<Area::kLeftOver>},
};

}  // namespace

const std::span<const Check> kRulesChecks = kRulesTable;

}  // namespace nomad_bridge::cli
