#include "plugin/cli/outcome_report.h"

#include <array>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/cli/document.h"
#include "plugin/cli/terminal.h"

namespace nomad_bridge::cli {
namespace {

std::string_view Text(Mismatch::Area area) {
  constexpr std::array<std::string_view, 11> kTexts = {"bridge",
                                                       "forwarding",
                                                       "localhost",
                                                       "port",
                                                       "lease",
                                                       "record",
                                                       "table",
                                                       "staticRules",
                                                       "element",
                                                       "leftOver",
                                                       "otherFirewall"};
  return kTexts.at(static_cast<std::size_t>(area));
}

// What was found: repaired, and left.
std::vector<Mismatch> AllOf(const Mismatches& mismatches) {
  std::vector<Mismatch> all = mismatches.repaired();
  Append(all, mismatches.left());
  return all;
}

// What could not be repaired, a line each.
std::vector<std::string> FailuresOf(const attachment::Outcome& outcome) {
  std::vector<std::string> failures = outcome.failed;
  for (const Mismatch& mismatch : outcome.mismatches.left()) {
    if (outcome.mismatches.is_repairing() && !mismatch.repairable) {
      failures.push_back(Format("container '{}': {}", mismatch.owner, mismatch.text));
    }
  }
  return failures;
}

Json ToJson(std::string_view command, const attachment::Outcome& outcome, RulesetState state) {
  Json document = NewDocument();
  document["command"] = command;
  document["dryRun"] = !outcome.mismatches.is_repairing();
  document["unchanged"] = state == RulesetState::kUnchanged;
  document["attachments"] = outcome.attachments;
  document["found"] = Json::array();
  document["mismatches"] = Json::array();
  for (const Mismatch& mismatch : AllOf(outcome.mismatches)) {
    document["found"].push_back(mismatch.text);
    document["mismatches"].push_back({{"area", Text(mismatch.area)},
                                      {"owner", mismatch.owner},
                                      {"text", mismatch.text},
                                      {"repairable", mismatch.repairable}});
  }
  document["failed"] = FailuresOf(outcome);
  document["busy"] = Json::array();
  for (const AttachmentId& id : outcome.busy) {
    document["busy"].push_back(
        {{"network", id.network}, {"containerId", id.container_id}, {"ifname", id.ifname}});
  }
  return document;
}

// "3 repaired", "nothing to repair", "3 found wrong, 1 could not be repaired".
std::string SummaryOf(std::string_view command, const attachment::Outcome& outcome) {
  const bool is_gc = command == kGc.name;
  const bool is_repairing = outcome.mismatches.is_repairing();
  const std::string_view act = is_gc ? "take back" : "repair";
  const std::string_view done = is_gc ? "taken back" : "repaired";
  const std::size_t found = AllOf(outcome.mismatches).size();
  if (const std::size_t failed = FailuresOf(outcome).size(); failed > 0) {
    return Format("{} {}, {} could not be {}",
                  found,
                  is_gc ? "found" : "found wrong",
                  failed,
                  is_repairing ? done : "examined");
  }
  if (found == 0) {
    return Cat("nothing to ", act);
  }
  return is_repairing ? Cat(found, ' ', done) : Format("{} to {}", found, act);
}

std::string TextOf(std::string_view command,
                   const attachment::Outcome& outcome,
                   RulesetState state) {
  if (state == RulesetState::kUnchanged) {
    return "nothing has changed\n";
  }
  std::string text;
  if (!outcome.mismatches.is_repairing()) {
    for (const Mismatch& mismatch : outcome.mismatches.left()) {
      text += Cat(Printable(mismatch.text), '\n');
    }
  }
  text += Cat(state == RulesetState::kOthersChanged ? "only other tables have changed"
                                                    : Counted(outcome.attachments, "attachment"),
              "; ",
              SummaryOf(command, outcome));
  if (!outcome.busy.empty()) {
    text += Format("; {} left out, as other commands work on them", outcome.busy.size());
  }
  return text + '\n';
}

}  // namespace

Mode ModeOf(const Arguments& arguments) {
  return arguments.Has("dry-run") ? Mode::kLook : Mode::kRepair;
}

attachment::Progress ProgressOnTerminal(std::string_view command) {
  if (::isatty(STDERR_FILENO) == 0) {
    return [](std::size_t, std::size_t) {};
  }
  return [command](std::size_t done, std::size_t all) {
    constexpr std::size_t kStep = 32;
    if (done == all) {
      WriteBestEffort(STDERR_FILENO, "\r\x1b[K");
    } else if (done % kStep == 0) {
      WriteBestEffort(STDERR_FILENO, Format("\r{} {} of {}", command, done, all));
    }
  };
}

int Report(const Arguments& arguments,
           std::string_view command,
           const attachment::Outcome& outcome,
           RulesetState state) {
  if (arguments.Has("json")) {
    PrintDocument(ToJson(command, outcome, state));
  } else {
    Print(TextOf(command, outcome, state));
  }
  const std::vector<std::string> failures = FailuresOf(outcome);
  for (const std::string& failure : failures) {
    LogLine("{}", Printable(failure));
  }
  return failures.empty() && outcome.mismatches.left().empty() ? kYes : kNo;
}

}  // namespace nomad_bridge::cli
