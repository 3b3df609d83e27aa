#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/list.h"
#include "base/memo.h"
#include "base/text.h"
#include "plugin/causes/explain.h"
#include "plugin/causes/on_node.h"
#include "plugin/cli/doctor.h"

namespace nomad_bridge::cli {
namespace {

using causes::Cause;
using causes::Causes;

// Finds what blocks connections from anywhere to published ports, as far as this can be seen
// without sending packets. Examines only once the things that several ports share.
class BlockedPorts {
 public:
  explicit BlockedPorts(state::Host& host) : facts_(host) {}

  Causes FindCauses(const state::Record& record) {
    Causes found;
    std::set<Ip> addresses;
    for (const portmap::DnatEntry& port : record.rules.ports) {
      Append(found, OnNode(record, port));
      if (addresses.insert(port.container_ip).second) {
        Append(found, causes::FindToContainer(facts_, record, port.container_ip));
      }
    }
    return found;
  }

 private:
  // Returns the causes on the node. Ports share them if they have the same gateway, host address
  // and family, and their answers take the same kind of route.
  const Causes& OnNode(const state::Record& record, const portmap::DnatEntry& port) {
    return AskOnce(on_node_,
                   {record.link.gateway_ifname,
                    record.link.gateways.empty(),
                    record.rules.had_default_route.Has(port.container_ip.family()),
                    port.host_ip,
                    port.container_ip.family()},
                   [&] {
                     return causes::FindOnNode(
                         facts_, record, port, planner_.ToPort(record, port, std::nullopt));
                   });
  }

  causes::NodeFacts facts_;
  causes::Planner planner_{facts_};
  std::map<std::tuple<std::string, bool, bool, std::optional<Ip>, Family>, Causes> on_node_;
};

// Returns the causes that do not end by themselves, and that no earlier check has reported.
Causes FindBlocked(Examination& node) {
  BlockedPorts blocked(node.host);
  Causes found;
  for (const Attachment* const attachment : node.publishing) {
    for (Cause& cause : blocked.FindCauses(*attachment->record)) {
      if (!cause.is_passing && !node.HasFix(cause.fix) && !Contains(found, cause)) {
        found.push_back(std::move(cause));
      }
    }
  }
  return found;
}

}  // namespace

// Reports causes with the same text or the same fix once, with the fix for the first of them.
void CheckBlockedPorts(Examination& node) {
  Causes found = FindBlocked(node);
  while (!found.empty()) {
    const Cause first = found.front();
    std::vector<std::string> lines;
    std::erase_if(found, [&](const Cause& each) {
      const bool is_same = each.text == first.text || each.fix == first.fix;
      if (is_same) {
        lines.push_back(lines.empty() ? each.text : Cat(each.text, "; ", each.fix.Line()));
      }
      return is_same;
    });
    node.AddAll(Verdict::kFail, lines, first.fix);
  }
}

// Counts a connection that is refused as reached: nobody listens on the port, but that is up to the
// allocation. Does not report ports that the operator's own rules or policies block on purpose.
void ProbePorts(Examination& node) {
  causes::NodeFacts facts(node.host);
  causes::Planner planner(facts);
  std::size_t answered = 0;
  for (const Attachment* const attachment : node.publishing) {
    for (const portmap::DnatEntry& port : attachment->record->rules.ports) {
      const auto connection = port.protocol == Protocol::kSctp
                                  ? std::nullopt
                                  : planner.ToPort(*attachment->record, port, std::nullopt);
      if (!connection) {
        continue;
      }
      const causes::Diagnosis diagnosis = causes::Diagnose(facts, *connection);
      if (diagnosis.way.IsWhole() || diagnosis.is_refused) {
        ++answered;
      } else if (const Cause& cause = diagnosis.causes.front(); !cause.is_meant) {
        node.Fail(Format("{} of allocation '{}': {}",
                         portmap::DescribeHostPort(port),
                         attachment->Allocation(),
                         cause.text),
                  cause.fix);
      }
    }
  }
  node.Ok(Cat(Counted(answered, "published port"), " reached"));
}

}  // namespace nomad_bridge::cli
