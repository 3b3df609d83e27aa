#include "plugin/cli/trial_log.h"

namespace nomad_bridge::cli {

causes::Diagnosis TrialLog::Ask(const causes::Connection& connection) {
  const Deadline deadline = FromNow(kPatience);
  for (;;) {
    try {
      causes::Diagnosis found = causes::Diagnose(facts_, connection);
      if (found.way.IsWhole() || found.is_by_rule || found.is_refused ||
          !IsWorthAnother(found.causes.front(), deadline)) {
        return found;
      }
    } catch (const Error&) {  // the kernel has lost a part of the trace
      if (std::chrono::steady_clock::now() >= deadline) {
        throw;
      }
    }
  }
}

bool TrialLog::IsWorthAnother(const Finding& cause, Deadline deadline) {
  if (known_.contains(cause.text)) {
    return false;
  }
  if (std::chrono::steady_clock::now() < deadline) {
    return true;
  }
  known_.insert(cause.text);
  return false;
}

void TrialLog::MustNotPass(std::string_view id,
                           const std::string& what,
                           const std::optional<causes::Connection>& connection,
                           causes::Station::What beyond,
                           const Finding& open) {
  Try(id, what, [&] {
    const causes::Diagnosis found = Ask(*connection);
    found.way.Passes(beyond) ? Add(id, what, Result::kFailed, open) : Add(id, what, Result::kOk);
  });
}

void TrialLog::AddUnanswered(std::string_view id,
                             const std::string& what,
                             const causes::Diagnosis& found) {
  Add(id,
      what,
      found.is_by_policy || found.is_kept ? Result::kLeftOut : Result::kFailed,
      found.causes.front());
}

void TrialLog::Add(std::string_view id, const std::string& what, Result result, Finding finding) {
  finding.fix = finding.FixNow();
  checks_.push_back(
      {.id = id, .family = family_, .what = what, .result = result, .finding = std::move(finding)});
}

}  // namespace nomad_bridge::cli
