#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <utility>

#include "base/file_lock.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/causes/explain.h"
#include "plugin/causes/in_container.h"
#include "plugin/causes/names.h"
#include "plugin/cli/doctor.h"
#include "plugin/cli/inspection.h"
#include "plugin/cli/terminal.h"

namespace nomad_bridge::cli {
namespace {

using Severity = Finding::Severity;

// A probe takes some 30 ms.
constexpr std::chrono::minutes kLongest{1};

// Returns the ports that can be probed.
std::vector<std::pair<const Attachment*, const portmap::DnatEntry*>> PortsToProbe(
    const Examination& node) {
  std::vector<std::pair<const Attachment*, const portmap::DnatEntry*>> ports;
  for (const Attachment* const attachment : node.publishing) {
    for (const portmap::DnatEntry& port : attachment->record->rules.ports) {
      if (port.protocol != Protocol::kSctp) {
        ports.emplace_back(attachment, &port);
      }
    }
  }
  return ports;
}

// Returns why the connection does not pass, as `inspect` says it.
Finding CauseOf(Examination& node,
                const Attachment& attachment,
                const portmap::DnatEntry& port,
                const causes::Diagnosis& diagnosis) {
  const Question question{.name = std::to_string(port.host_port), .probes = false};
  const Inspected inspected = Inspect(node.host, attachment, question);
  Finding cause = inspected.Explains(diagnosis)
                      ? inspected.FindCause().value_or(diagnosis.causes.front())
                      : diagnosis.causes.front();
  cause.owner = Format("{} of allocation {}", portmap::DescribeHostPort(port), attachment.Named());
  return cause;
}

// Counts a connection that is refused as reached: nobody listens on the port, but that is up to the
// allocation. Does not report ports that the operator's own rules or policies block on purpose.
void ProbePorts(Examination& node) {
  const Deadline deadline = FromNow(kLongest);
  causes::NodeFacts facts(node.host);
  causes::Planner planner(facts);
  const auto progress = ProgressOnTerminal("ports.probe");
  const auto ports = PortsToProbe(node);
  std::size_t tried = 0;
  std::size_t answered = 0;
  FindingList found;
  for (const auto& [attachment, port] : ports) {
    if (std::chrono::steady_clock::now() > deadline) {
      break;
    }
    progress(tried++, ports.size());
    const auto connection = planner.ToPort(*attachment->record, *port, std::nullopt);
    if (!connection) {
      continue;
    }
    const causes::Diagnosis diagnosis = causes::Diagnose(facts, *connection);
    Append(found, diagnosis.unseen);
    if (diagnosis.way.IsWhole() || diagnosis.is_refused) {
      ++answered;
    } else if (diagnosis.causes.front().severity != Severity::kNote) {
      found.push_back(CauseOf(node, *attachment, *port, diagnosis));
    }
  }
  progress(ports.size(), ports.size());
  node.AddUnreported(std::move(found));
  if (tried < ports.size()) {
    node.Warn(Format("{} of {} published ports were not probed: it would take longer than a minute",
                     ports.size() - tried,
                     ports.size()),
              Fix::Advice("probe the ports of an allocation: nomad-bridge inspect ALLOC"));
  }
  node.Ok(Format("{} of {} reached", answered, Counted(tried, "published port")));
}

// ---- name servers

class NameServers {
 public:
  explicit NameServers(Examination& node) : node_(node) {}

  // Probes the name servers of one attachment's container.
  void Probe(const Attachment& attachment) {
    std::optional<causes::Inside> inside = causes::OpenInside(*attachment.record);
    if (!inside || causes::FindFrameReaderNote(*inside)) {
      return;  // its resolv.conf cannot be seen from here
    }
    FindingList lost;
    std::size_t reached = 0;
    for (const Ip& server : causes::FindNameServers(*inside)) {
      if (!LeadsTo(*inside, server) || !tried_.emplace(inside->id.inode, server).second) {
        continue;
      }
      std::optional<Finding> cause =
          causes::FindLostNameServer(facts_, *attachment.record, server, found_);
      cause ? lost.push_back(*std::move(cause)) : static_cast<void>(++reached);
    }
    containers_ += reached != 0 && lost.empty() ? 1 : 0;
    for (Finding& finding : lost) {
      // A resolver asks the next server after some seconds; a policy is there on purpose.
      const bool is_fault = reached == 0 && finding.severity == Severity::kFault;
      finding.severity = is_fault ? Severity::kFault : Severity::kWarning;
    }
    Append(found_, std::move(lost));
  }

  void Report() {
    node_.AddAll(std::move(found_));
    if (containers_ != 0) {
      node_.Ok(Format("{} with name servers that are reached", Counted(containers_, "container")));
    }
  }

 private:
  // Returns whether the container's packets to `server` stay inside, or leave by the attachment's
  // interface: a container may have several.
  static bool LeadsTo(causes::Inside& inside, const Ip& server) {
    const rtnl::RouteAnswer way = inside.net.LookUpRoute({.destination = server});
    return way.error != 0 || way.is_local || (inside.link && way.link == inside.link->index);
  }

  Examination& node_;
  causes::NodeFacts facts_{node_.host};
  std::set<std::pair<std::uint64_t, Ip>> tried_;  // by namespace
  std::size_t containers_ = 0;                    // whose name servers are all reached
  FindingList found_;
};

void ProbeNameServers(Examination& node) {
  const Deadline deadline = FromNow(kLongest);
  const auto progress = ProgressOnTerminal("dns.probe");
  NameServers servers(node);
  std::size_t tried = 0;
  for (; tried < node.running.size() && std::chrono::steady_clock::now() < deadline; ++tried) {
    progress(tried, node.running.size());
    servers.Probe(*node.running[tried]);
  }
  progress(node.running.size(), node.running.size());
  servers.Report();
  if (tried < node.running.size()) {
    node.Warn(Format("the name servers of {} of {} attachments were not probed: it would take "
                     "longer than a minute",
                     node.running.size() - tried,
                     node.running.size()),
              Fix::Advice("probe those of one: nomad-bridge inspect ALLOC -to NAME:PORT"));
  }
}

constexpr std::array kProbeTable = {Check{"ports.probe", ProbePorts, true},
                                    Check{"dns.probe", ProbeNameServers, true}};

}  // namespace

const std::span<const Check> kProbeChecks = kProbeTable;

}  // namespace nomad_bridge::cli
