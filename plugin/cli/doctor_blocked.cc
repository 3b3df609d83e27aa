#include <map>
#include <optional>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "plugin/causes/journey.h"
#include "plugin/cli/doctor.h"

namespace nomad_bridge::cli {
namespace {

// What keeps anyone's connections from the ports of one allocation. What they have in common is
// looked at once.
causes::Causes FindBlockedOf(state::Host& host,
                             const state::Record& record,
                             causes::Planner& planner,
                             nft::Ruleset* rules) {
  causes::Causes found;
  std::map<std::pair<Ip, std::optional<Ip>>, causes::Journey> ways;
  for (const portmap::DnatEntry& port : record.rules.ports) {
    const auto way = ways.try_emplace({port.container_ip, port.host_ip});
    causes::Journey& journey = way.first->second;
    if (way.second) {
      journey = planner.Plan(port, std::nullopt);
      Append(found, causes::FindOnNode(host, record, journey));
      Append(found, causes::FindToContainer(host, record, journey));
    }
    journey.port = port;
    if (rules != nullptr) {
      Append(found, causes::FindInRules(host, *rules, record, journey));
    }
    if (found.empty()) {
      found = causes::FindSilentGateway(host, record, journey);
    }
  }
  return found;
}

// As far as no other check says it.
causes::Causes FindBlocked(Examination& node) {
  const bool are_rules_whole = causes::AreRulesWhole(node.Reconciled());
  nft::Ruleset rules(node.host.nft);
  causes::Planner planner(node.host);
  causes::Causes found;
  for (const Attachment* const attachment : node.running) {
    if (!attachment->record->IsLive(cni::Part::kPorts)) {
      continue;
    }
    for (causes::Cause& cause : FindBlockedOf(
             node.host, *attachment->record, planner, are_rules_whole ? &rules : nullptr)) {
      const bool is_said = cause.is_operators || cause.is_passing || node.HasFix(cause.fix);
      if (!is_said && !Contains(found, cause)) {
        found.push_back(std::move(cause));
      }
    }
  }
  return found;
}

}  // namespace

// What has one text or one fix for several ports is named once, with the fix for the first of them.
void CheckBlockedPorts(Examination& node) {
  causes::Causes found = FindBlocked(node);
  while (!found.empty()) {
    const causes::Cause first = found.front();
    std::vector<std::string> lines;
    std::erase_if(found, [&](const causes::Cause& each) {
      const bool is_same = each.text == first.text || each.fix == first.fix;
      if (is_same) {
        lines.push_back(lines.empty() ? each.text : Cat(each.text, "; ", each.fix.Line()));
      }
      return is_same;
    });
    node.AddAll(Verdict::kFail, lines, first.fix);
  }
}

}  // namespace nomad_bridge::cli
