#include "plugin/cli/policy_log.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <tuple>

#include "base/file.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/foreign/tools.h"
#include "plugin/state/record.h"

namespace nomad_bridge::cli {
namespace {

constexpr const char* kUnit = "nomad-bridge-flows.service";

std::string FileOfLog() {
  return Cat(state::kStateDirectory, "/.flows");
}

// Returns an empty object if the file is missing or damaged: it is a cache.
Json ReadLog() {
  constexpr std::size_t kMaxBytes = 16 << 20;
  Json log = Json::parse(
      FindOwnFile(FileOfLog(), kMaxBytes).value_or("{}"), nullptr, /*allow_exceptions=*/false);
  return log.is_object() ? log : Json::object();
}

// Returns what was printed about each flow, by its key.
std::map<std::string, std::string> PrintedIn(const Json& log) {
  std::map<std::string, std::string> printed;
  const Json flows = log.value("printed", Json::object());
  for (const auto& [key, decision] : flows.items()) {
    printed[key] = decision.is_string() ? decision.get<std::string>() : "";
  }
  return printed;
}

Json HolderJson(const Holder& holder) {
  const cni::Workload workload = holder.end.workload.value_or(cni::Workload());
  return {{"address", holder.end.address->Text()},
          {"namespace", workload.nomad_namespace},
          {"job", workload.job},
          {"group", workload.group},
          {"created", holder.created}};
}

std::string TextAt(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// Returns the end that a JSON object with these keys describes; nullopt without a valid address.
std::optional<policy::End> FindEnd(const Json& object) {
  const std::optional<Ip> address =
      object.is_object() ? Ip::Parse(TextAt(object, "address")) : std::nullopt;
  if (!address) {
    return std::nullopt;
  }
  policy::End end = {.address = address, .is_node = object.value("node", Json()) == true};
  const cni::Workload workload = {.nomad_namespace = TextAt(object, "namespace"),
                                  .job = TextAt(object, "job"),
                                  .group = TextAt(object, "group")};
  if (!workload.nomad_namespace.empty() || !workload.job.empty()) {
    end.workload = workload;
  }
  return end;
}

// Returns "infra/prometheus/main (172.26.64.5)"; the address alone if that is the name.
std::string EndText(const Json& end) {
  const std::string name = PlainText(end.at("name"));
  const std::string address = PlainText(end.at("address"));
  return name == address ? name : Format("{} ({})", name, address);
}

std::string KeyOf(const Json& flow) {
  return Format("{} {} {}",
                PlainText(flow.at("from").at("address")),
                PlainText(flow.at("to").at("address")),
                PlainText(flow.at("port")));
}

std::string LineOf(const Json& flow) {
  return Format("{} -> {} {}: {}\n",
                EndText(flow.at("from")),
                EndText(flow.at("to")),
                PlainText(flow.at("port")),
                DecisionOf(flow));
}

// Returns the allocations that are ends of these flows: names are needed no longer than flows.
Json HoldersOf(const Json& flows, const Holders& known) {
  std::set<std::string> addresses;
  for (const Json& flow : flows) {
    addresses.insert(flow.at("from").at("address"));
    addresses.insert(flow.at("to").at("address"));
  }
  Json holders = Json::array();
  for (const Holder& holder : known.allocations) {
    if (addresses.contains(holder.end.address->Text())) {
      holders.push_back(HolderJson(holder));
    }
  }
  return holders;
}

std::string ReadJournalText(const std::string& time) {
  const std::optional<std::string> journalctl = foreign::FindTool("journalctl");
  if (!journalctl) {
    throw CannotTell("-since reads systemd's journal, and journalctl is not installed");
  }
  const ExitInfo exit = foreign::RunTool(*journalctl,
                                         {"--no-pager",
                                          "--quiet",
                                          "--output=json",
                                          "--output-fields=MESSAGE",
                                          Cat("--since=", time),
                                          Cat("_SYSTEMD_UNIT=", kUnit)});
  if (!exit.Succeeded()) {
    throw CannotTell(
        Format("journalctl --since='{}' failed ({}): {}", time, exit.HowItEnded(), exit.err));
  }
  return exit.out;
}

// Returns the flow that a line of the journal holds; nullopt for any other line.
std::optional<Flow> FindLoggedFlow(std::string_view line, std::uint64_t now) {
  const Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const Json logged =
      entry.is_object() ? Json::parse(TextAt(entry, "MESSAGE"), nullptr, false) : Json();
  if (!logged.is_object() || !logged.contains("from") || !logged.contains("to")) {
    return std::nullopt;
  }
  const std::optional<policy::End> from = FindEnd(logged.at("from"));
  const std::optional<policy::End> to = FindEnd(logged.at("to"));
  const std::optional<std::uint64_t> micros =
      FindNumber<std::uint64_t>(TextAt(entry, "__REALTIME_TIMESTAMP"));
  std::optional<Flow> flow = FindFlowOnPort(TextAt(logged, "port"));
  if (!from || !to || !micros || !flow) {
    return std::nullopt;
  }
  constexpr std::uint64_t kMicros = 1'000'000;
  flow->from = *from;
  flow->to = *to;
  flow->seconds_ago = now - std::min(now, *micros / kMicros);
  flow->is_refused = logged.value("refused", Json()) == true;
  return flow;
}

void RecallHoldersIn(const Json& log, Holders& known) {
  for (const Json& each : log.value("holders", Json::array())) {
    const std::optional<policy::End> end = FindEnd(each);
    const auto created = each.is_object() ? each.find("created") : each.end();
    if (end && created != each.end() && created->is_number_unsigned()) {
      known.allocations.push_back({.end = *end, .created = created->get<std::uint64_t>()});
    }
  }
}

}  // namespace

void RecallHolders(Holders& known) {
  RecallHoldersIn(ReadLog(), known);
}

void LogFlows(state::Host& host, bool is_json) {
  const Json log_before = ReadLog();
  Holders known;
  RecallHoldersIn(log_before, known);
  const Json flows = ToJson(ReadFlows(host, known)).at("flows");
  const std::map<std::string, std::string> printed_before = PrintedIn(log_before);
  std::map<std::string, std::string> printed;
  for (const Json& flow : flows) {
    const std::string key = KeyOf(flow);
    const std::string decision = DecisionOf(flow);
    printed[key] = decision;
    const auto before = printed_before.find(key);
    if (before == printed_before.end() || before->second != decision) {
      Print(is_json ? Cat(flow.dump(-1, ' ', false, Json::error_handler_t::replace), '\n')
                    : LineOf(flow));
    }
  }
  // Last: a killed command prints a flow twice rather than never.
  const Json log = {{"holders", HoldersOf(flows, known)}, {"printed", printed}};
  if (log != log_before) {
    ReplaceFile(FileOfLog(), log.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

Flows ReadJournal(state::Host& host, const std::string& time) {
  const auto now = static_cast<std::uint64_t>(std::time(nullptr));
  // The journal is in the order of time: a later line about the same ends replaces an earlier one.
  std::map<std::tuple<std::string, std::string, std::uint8_t, std::uint16_t>, Flow> latest;
  for (const std::string& line : SplitFields(ReadJournalText(time), "\n")) {
    if (const std::optional<Flow> flow = FindLoggedFlow(line, now)) {
      latest.insert_or_assign({Text(flow->from), Text(flow->to), flow->protocol, flow->port},
                              *flow);
    }
  }
  Flows read;
  for (auto& each : latest) {
    // The names are those of the time, so no end counts as gone.
    Explain(host.policy.Program(), Holders(), each.second);
    read.flows.push_back(std::move(each.second));
  }
  std::ranges::sort(read.flows, {}, &Flow::seconds_ago);
  return read;
}

}  // namespace nomad_bridge::cli
