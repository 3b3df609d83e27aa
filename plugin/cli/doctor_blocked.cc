#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/list.h"
#include "base/memo.h"
#include "base/text.h"
#include "plugin/causes/in_container.h"
#include "plugin/cli/doctor.h"

namespace nomad_bridge::cli {
namespace {

// What keeps anyone's connections from the ports of allocations. What they have in common is looked
// at once.
class BlockedLook {
 public:
  // `reconciled`: what a reconcile would find.
  BlockedLook(state::Host& host, const Mismatches& reconciled)
      : facts_(host),
        are_rules_whole_(causes::AreRulesWhole(reconciled)),
        is_whole_(reconciled.left().empty()) {}

  causes::Causes Of(const state::Record& record) {
    causes::Causes found;
    std::map<std::tuple<Ip, std::optional<Ip>, int, int>, causes::Journey> ways;
    for (const portmap::DnatEntry& port : record.rules.ports) {
      const Family family = port.container_ip.family();
      const bool is_alone = HasRulesAboutPorts(family) || facts_.HasRulesAboutMarks(family);
      const auto way = ways.try_emplace({port.container_ip,
                                         port.host_ip,
                                         is_alone ? static_cast<int>(port.protocol) : 0,
                                         is_alone ? port.container_port : 0});
      causes::Journey& journey = way.first->second;
      if (way.second) {
        journey = planner_.Plan(record, port, std::nullopt);
        journey.marks = causes::FindMarks(facts_, journey);
        Append(found, OnNode(journey));
        Append(found, causes::FindToContainer(facts_, journey));
      }
      journey.port = port;
      if (are_rules_whole_) {
        Append(found, causes::FindInRules(facts_, journey));
      }
      Append(found, causes::FindInXfrm(facts_, journey));
      if (found.empty() && way.second) {
        found = causes::FindSilentGateway(facts_, journey);
        Append(found, OfSilent(journey));
      }
    }
    return found;
  }

 private:
  // Where nothing else is known to be wrong: what a container shows itself, its own check says.
  [[nodiscard]] causes::Causes OfSilent(const causes::Journey& journey) {
    causes::Causes silent =
        is_whole_ ? causes::FindSilentContainer(facts_, journey) : causes::Causes();
    const auto netns = silent.empty() ? std::nullopt : causes::FindNetns(*journey.record);
    if (!netns) {
      return silent;
    }
    causes::Interior inside{*netns, *journey.record};
    return causes::FindInContainer(inside, std::nullopt).empty() ? silent : causes::Causes();
  }

  [[nodiscard]] bool HasRulesAboutPorts(Family family) {
    return AskOnce(
        has_rules_about_ports_, family, [&] { return facts_.host.net.HasRulesAboutPorts(family); });
  }

  // The same for all that comes for one address, by one gateway, and found the same way beyond.
  const causes::Causes& OnNode(const causes::Journey& journey) {
    const state::Record& record = *journey.record;
    return AskOnce(on_node_,
                   {record.link.gateway_ifname,
                    record.link.gateways.empty(),
                    record.rules.ways.Has(journey.family()),
                    journey.port.host_ip,
                    journey.node.value_or(journey.port.container_ip)},
                   [&] { return causes::FindOnNode(facts_, journey); });
  }

  causes::NodeFacts facts_;
  causes::Planner planner_{facts_};
  bool are_rules_whole_;
  bool is_whole_;
  std::map<Family, bool> has_rules_about_ports_;
  std::map<std::tuple<std::string, bool, bool, std::optional<Ip>, Ip>, causes::Causes> on_node_;
};

// As far as no other check says it.
causes::Causes FindBlocked(Examination& node) {
  BlockedLook look(node.host, node.Reconciled());
  causes::Causes found;
  for (const Attachment* const attachment : node.running) {
    if (!attachment->record->IsLive(cni::Part::kPorts)) {
      continue;
    }
    for (causes::Cause& cause : look.Of(*attachment->record)) {
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
