#include "plugin/cli/findings_report.h"

#include <string>

#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/cli/document.h"
#include "plugin/cli/terminal.h"

namespace nomad_bridge::cli {
namespace {

Json ToJson(std::string_view command,
            attachment::Dry dry,
            const attachment::Findings& findings,
            RulesetState state) {
  Json document = NewDocument();
  document["command"] = command;
  document["dryRun"] = dry == attachment::Dry::kYes;
  document["unchanged"] = state == RulesetState::kUnchanged;
  document["attachments"] = findings.attachments;
  document["found"] = findings.found;
  document["failed"] = findings.failed;
  document["busy"] = Json::array();
  for (const AttachmentId& id : findings.busy) {
    document["busy"].push_back(
        {{"network", id.network}, {"containerId", id.container_id}, {"ifname", id.ifname}});
  }
  return document;
}

// "3 repaired", "nothing to repair", "3 found wrong, 1 could not be repaired".
std::string SummaryOf(std::string_view command,
                      attachment::Dry dry,
                      const attachment::Findings& findings) {
  const bool is_gc = command == kGc.name;
  const std::string_view act = is_gc ? "take back" : "repair";
  const std::string_view done = is_gc ? "taken back" : "repaired";
  const std::size_t found = findings.found.size();
  if (const std::size_t failed = findings.failed.size(); failed > 0) {
    return Format("{} {}, {} could not be {}",
                  found,
                  is_gc ? "found" : "found wrong",
                  failed,
                  dry == attachment::Dry::kYes ? "examined" : done);
  }
  if (found == 0) {
    return Cat("nothing to ", act);
  }
  return dry == attachment::Dry::kYes ? Format("{} to {}", found, act) : Cat(found, ' ', done);
}

std::string TextOf(std::string_view command,
                   attachment::Dry dry,
                   const attachment::Findings& findings,
                   RulesetState state) {
  if (state == RulesetState::kUnchanged) {
    return "nothing has changed\n";
  }
  std::string text;
  if (dry == attachment::Dry::kYes) {
    for (const std::string& line : findings.found) {
      text += Cat(Printable(line), '\n');
    }
  }
  text += Cat(
      state == RulesetState::kOthersChanged
          ? "only other tables have changed"
          : Format("{} attachment{}", findings.attachments, findings.attachments == 1 ? "" : "s"),
      "; ",
      SummaryOf(command, dry, findings));
  if (!findings.busy.empty()) {
    text += Format("; {} left out, as other commands work on them", findings.busy.size());
  }
  return text + '\n';
}

}  // namespace

attachment::Dry DryOf(const Arguments& arguments) {
  return arguments.Has("dry-run") ? attachment::Dry::kYes : attachment::Dry::kNo;
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
           const attachment::Findings& findings,
           RulesetState state) {
  const attachment::Dry dry = DryOf(arguments);
  if (arguments.Has("json")) {
    PrintDocument(ToJson(command, dry, findings, state));
  } else {
    Print(TextOf(command, dry, findings, state));
  }
  for (const std::string& failure : findings.failed) {
    LogLine("{}", Printable(failure));
  }
  const bool is_open = dry == attachment::Dry::kYes && !findings.found.empty();
  return findings.failed.empty() && !is_open ? kYes : kNo;
}

}  // namespace nomad_bridge::cli
