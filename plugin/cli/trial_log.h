// Probes connections for the checks of `nomad-bridge test`, and keeps the results.
//
// Errors   kKernel
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_lock.h"
#include "plugin/causes/explain.h"
#include "plugin/cli/trial.h"

namespace nomad_bridge::cli {

class TrialLog {
 protected:
  using Result = TrialCheck::Result;

  // How long a connection that fails is tried again.
  static constexpr std::chrono::seconds kPatience{2};

  explicit TrialLog(state::Host& host) : facts_(host) {}

  // Probes the connection; again, if it does not pass, and no rule says so.
  [[nodiscard]] causes::Diagnosis Ask(const causes::Connection& connection);
  // Returns whether a connection that failed is to be tried again. No cause is waited for twice.
  [[nodiscard]] bool IsWorthAnother(const Finding& cause, Deadline deadline);

  // Runs `act`, which adds checks. If it throws, the check is unknown.
  template <typename Act>
  void Try(std::string_view id, const std::string& what, Act act) {
    try {
      act();
    } catch (const Error& error) {
      Add(id, what, Result::kUnknown, {.text = error.what(), .fix = error.fix()});
    }
  }

  // A check of a connection that must not pass the station `beyond`. `open`: the finding if it
  // does.
  void MustNotPass(std::string_view id,
                   const std::string& what,
                   const std::optional<causes::Connection>& connection,
                   causes::Station::What beyond,
                   const Finding& open);

  // Adds a check of a connection that was not answered. It need not be if a policy refuses it,
  // or if it is kept from the node.
  void AddUnanswered(std::string_view id, const std::string& what, const causes::Diagnosis& found);
  void Add(std::string_view id, const std::string& what, Result result, Finding finding = {});
  [[nodiscard]] std::vector<TrialCheck> TakeChecks() { return std::move(checks_); }

  causes::NodeFacts facts_;
  causes::Planner planner_{facts_};
  std::optional<Family> family_;  // of the checks that are added

 private:
  std::set<std::string> known_;  // causes for which we have waited
  std::vector<TrialCheck> checks_;
};

}  // namespace nomad_bridge::cli
