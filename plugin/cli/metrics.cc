#include <array>
#include <cerrno>
#include <filesystem>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/drops.h"
#include "plugin/cli/command.h"
#include "plugin/cli/commit.h"
#include "plugin/cli/doctor.h"
#include "plugin/cli/policy_flows.h"
#include "plugin/cli/policy_view.h"
#include "plugin/cli/terminal.h"
#include "plugin/cni/version.h"
#include "plugin/config/node_config.h"
#include "plugin/state/events.h"

namespace nomad_bridge::cli {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Escapes backslashes, quotes and line ends. Our labels are printable already.
std::string Escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') {
      text += '\\';
    }
    text += c == '\n' ? ' ' : c;
  }
  return text;
}

// The samples of one metric, under its HELP and TYPE. Prints nothing if there is no sample.
class Metric {
 public:
  Metric(std::string_view name, std::string_view type, std::string_view help)
      : name_(Cat("nomad_bridge_", name)),
        head_(Format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type)) {}

  void Add(const Labels& labels, std::uint64_t value) {
    std::string text;
    for (const auto& [name, label] : labels) {
      text += Cat(text.empty() ? "" : ",", name, "=\"", Escaped(label), '"');
    }
    samples_ += Cat(name_, '{', text, "} ", value, '\n');
  }

  [[nodiscard]] std::string Text() const { return samples_.empty() ? "" : Cat(head_, samples_); }

 private:
  std::string name_;
  std::string head_;
  std::string samples_;
};

Labels LabelsOf(const Attachment& attachment) {
  const std::string& job = attachment.Label(cni::kJob);
  const std::string parent = cni::ParentJob(job);
  Labels labels = {{"namespace", attachment.Label(cni::kNamespace)},
                   {"job", parent},
                   {"task_group", attachment.Label(cni::kGroup)},
                   {"alloc_id", attachment.Allocation()},
                   {"device", attachment.host_veth}};
  if (parent != job) {
    labels.emplace_back("job_id", job);
  }
  return labels;
}

// Returns the counters as the allocation sees them: it has received what its host end has sent.
std::string TrafficMetrics(const Inventory& inventory) {
  std::string text;
  for (const auto& [direction, verb, side] :
       {std::tuple{"receive", "received", &rtnl::LinkCounters::sent},
        std::tuple{"transmit", "sent", &rtnl::LinkCounters::received}}) {
    for (const auto& [what, unit, field] :
         {std::tuple{"bytes", "Bytes", &rtnl::Counters::bytes},
          std::tuple{"packets", "Packets", &rtnl::Counters::packets},
          std::tuple{"dropped", "Dropped packets", &rtnl::Counters::dropped}}) {
      Metric metric(Format("network_{}_{}_total", direction, what),
                    "counter",
                    Format("{} that an allocation has {}, as its host's end counts.", unit, verb));
      for (const Attachment& attachment : inventory.attachments) {
        if (attachment.link && attachment.link->counters) {
          metric.Add(LabelsOf(attachment), (*attachment.link->counters).*side.*field);
        }
      }
      text += metric.Text();
    }
  }
  return text;
}

std::string UsageMetric(const Inventory& inventory,
                        std::string_view name,
                        std::string_view help,
                        std::optional<Usage> Network::*usage) {
  Metric metric(name, "gauge", help);
  for (const Network& network : inventory.networks) {
    if (const std::optional<Usage>& of = network.*usage) {
      metric.Add({{"network", network.name}, {"state", "used"}}, of->used);
      metric.Add({{"network", network.name}, {"state", "free"}}, of->free());
    }
  }
  return metric.Text();
}

// Adds a sample of every state for every network, so that a query for state="dead" finds 0 instead
// of nothing.
std::string AttachmentMetric(const Inventory& inventory) {
  Metric metric("attachments", "gauge", "Attachments by state.");
  std::map<std::string, std::map<State, std::uint64_t>> counts;
  for (const Attachment& attachment : inventory.attachments) {
    ++counts[attachment.id.network][attachment.state];
  }
  for (auto& [network, by_state] : counts) {
    for (int number = 0; number <= static_cast<int>(State::kUnreadable); ++number) {
      const auto state = static_cast<State>(number);
      metric.Add({{"network", network}, {"state", std::string(Text(state))}}, by_state[state]);
    }
  }
  return metric.Text();
}

std::string FaultMetric(state::Host& host, const Inventory& inventory) {
  Metric metric("faults", "gauge", "What doctor finds wrong, by its check and verdict.");
  std::map<std::string, std::map<Finding::Severity, std::uint64_t>> counts;
  for (const Finding& finding : RunChecks(host, inventory, false)) {
    ++counts[std::string(finding.check)][finding.severity];
  }
  for (auto& [check, by_verdict] : counts) {
    metric.Add({{"check", check}, {"verdict", "fail"}}, by_verdict[Finding::Severity::kFault]);
    metric.Add({{"check", check}, {"verdict", "warn"}}, by_verdict[Finding::Severity::kWarning]);
  }
  return metric.Text();
}

// Returns no samples if the counters cannot be read: checks of doctor report that.
std::string DropMetric(state::Host& host) {
  Metric metric("dropped_packets_total",
                "counter",
                "Packets that rules have dropped because a network's config says so, by its key.");
  try {
    std::map<std::string, std::uint64_t> counts = firewall::CountDrops(host.nft);
    for (const char* const key :
         {firewall::kSourceCheck, firewall::kInboundKey, firewall::kIngressPolicy}) {
      metric.Add({{"reason", key}}, counts[key]);
    }
  } catch (const Error&) {
    return "";
  }
  return metric.Text();
}

std::string BuildMetric() {
  Metric metric("build_info", "gauge", "1, of the release that wrote this.");
  metric.Add(
      {{"version", std::string(cni::ProgramVersion())}, {"commit", std::string(BuildCommit())}}, 1);
  return metric.Text();
}

// Adds a sample for every kind of event from the start. If a sample appeared with its first event,
// Prometheus' increase() would miss that event.
std::string EventMetric(std::string_view name,
                        std::string_view help,
                        std::string_view label,
                        const state::EventCounts& counts) {
  Metric metric(name, "counter", help);
  for (const auto& [kind, count] : counts) {
    metric.Add({{label, kind}}, count);
  }
  return metric.Text();
}

std::string FailedReconcilesMetric() {
  Metric metric(
      "reconcile_failures_total", "counter", "Runs of reconcile that could not repair something.");
  metric.Add({}, state::FailedReconciles());
  return metric.Text();
}

// Returns a sample for each rule of the policies in force, whether an allocation has the rule or
// not, and the usage of the sets of flows. Returns no samples without root or policies, or if the
// policies cannot be read: a check of doctor reports that.
std::string PolicyMetrics(state::Host& host) {
  // In the order of CounterOf::What.
  constexpr std::array<std::string_view, 3> kVerdicts = {"allowed", "refused", "would_be_refused"};
  Metric connections(
      "policy_connections_total",
      "counter",
      "New connections that a rule of the policies in force has let pass or refused.");
  Metric flows("policy_flows",
               "gauge",
               "Flows that policies have refused or would refuse within the last hour, of 4096.");
  try {
    if (::geteuid() != 0 || host.policy.Program().empty()) {
      return "";
    }
    for (const RuleCount& count : CountByRule(host)) {
      if (count.since.empty()) {
        continue;  // a node may have thousands of rules for allocations that are elsewhere
      }
      const std::string_view verdict = kVerdicts.at(static_cast<std::size_t>(count.what));
      connections.Add(
          {{"policy", count.policy}, {"rule", count.rule}, {"verdict", std::string(verdict)}},
          count.packets);
    }
    for (const auto& [verdict, usage] :
         {std::pair("refused", UsageOfRefusedFlows(host)),
          std::pair("would_be_refused", UsageOfAuditedFlows(host))}) {
      flows.Add({{"verdict", verdict}, {"state", "used"}}, usage.used);
      flows.Add({{"verdict", verdict}, {"state", "free"}}, usage.free());
    }
  } catch (const Error& error) {
    LogLine("{}, ignoring", error.what());
  }
  return connections.Text() + flows.Text();
}

// Writes a file that a collector with another user can read. ReplaceFile() would make a file that
// only we can read.
void Publish(const std::string& path, const std::string& text) {
  constexpr mode_t kReadable = 0644;
  const std::string fresh = path + ".new";  // not *.prom, which would be collected
  EnsureFileGone(fresh);
  // Sets the mode through the descriptor: in a directory that belongs to the collector, the name
  // may lead to another file by then.
  const UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kReadable));
  if (!fd) {
    throw ErrnoError(errno == EEXIST ? Code::kTryAgain : Code::kIo,
                     Format("cannot write '{}'", fresh));
  }
  try {
    WriteAll(fd.get(), text, fresh);
    if (::fchmod(fd.get(), kReadable) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
      throw ErrnoError(Code::kIo, Format("cannot write '{}'", path));
    }
  } catch (const Error&) {
    EnsureFileGone(fresh);
    throw;
  }
}

// Returns the directory of node_exporter's textfiles: that of the node's config, else the first of
// the usual ones that exists. Empty if there is none.
std::string TextfileDirectory() {
  try {
    if (std::string named = config::ReadNodeConfig().metrics_directory; !named.empty()) {
      return named;
    }
  } catch (const Error& error) {
    LogLine("{}, ignoring", error.what());
  }
  // Of Debian's package, of node_exporter's README, and of Prometheus' Ansible collection.
  for (const char* const usual : {"/var/lib/prometheus/node-exporter",
                                  "/var/lib/node_exporter/textfile_collector",
                                  "/var/lib/node_exporter"}) {
    if (std::error_code none; std::filesystem::is_directory(usual, none)) {
      return usual;
    }
  }
  return "";
}

// Returns the file to write; empty for stdout, or if -textfile has no directory.
std::string FileOf(const Arguments& arguments) {
  if (const std::string* const output = arguments.Find("output")) {
    return *output;
  }
  const std::string directory = arguments.Has("textfile") ? TextfileDirectory() : "";
  return directory.empty() ? "" : Cat(directory, "/nomad-bridge.prom");
}

int RunMetrics(const Arguments& arguments) {
  const std::string file = FileOf(arguments);
  if (file.empty() && arguments.Has("textfile")) {
    return kYes;
  }
  state::Host host = state::Host::OpenToLook();
  const Inventory inventory = TakeInventory(host);
  RemarkOn(host, inventory);
  const std::string text = Cat(
      TrafficMetrics(inventory),
      UsageMetric(inventory, "addresses", "Addresses of a network's range.", &Network::addresses),
      UsageMetric(
          inventory, "bridge_ports", "Ports of a network's bridge, of 1023.", &Network::ports),
      AttachmentMetric(inventory),
      FaultMetric(host, inventory),
      PolicyMetrics(host),
      DropMetric(host),
      EventMetric("refused_adds_total",
                  "ADDs that failed, by the code of their error.",
                  "code",
                  state::RefusedAdds()),
      EventMetric("repairs_total",
                  "What was repaired on the host's side, by its area.",
                  "area",
                  state::Repairs()),
      FailedReconcilesMetric(),
      BuildMetric());
  if (file.empty()) {
    Print(text);
  } else {
    Publish(file, text);
  }
  if (arguments.Has("textfile")) {
    Print(Cat(file, '\n'));
  }
  return kYes;
}

constexpr std::array kMetricsFlags = {
    Flag{"output", "FILE", "writes FILE for node_exporter, by rename, with mode 0644"},
    Flag{"textfile", nullptr, "the same, into node_exporter's directory; prints the path"}};

}  // namespace

const Command kMetrics = {
    .name = "metrics",
    .summary = "prints traffic, addresses and faults for Prometheus",
    .text =
        R"(Prints Prometheus' text format. Each allocation has its traffic, in its own
direction, for as long as it has its interface. The label job of
JOB/periodic-... and JOB/dispatch-... is JOB. -textfile writes nomad-bridge.prom
into "metricsDirectory" of /etc/nomad-bridge/config.json, else into the first of
the usual directories that exists; if there is none, it does nothing.
)",
    .flags = kMetricsFlags,
    .run = RunMetrics};

}  // namespace nomad_bridge::cli
