// Whether the node is well: the checks of `doctor`, which `metrics` counts, too.
//
// Ids      stable; doctor.cc has the table of them. Each check gives one diagnosis, or one per fault.
// Errors   none: a check that cannot be done says so, as a warning.
// Root     needed
// Locks    the rules', for the length of one comparison
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugin/cli/inventory.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

enum class Verdict { kOk, kWarn, kFail };

struct Diagnosis {
  Verdict verdict = Verdict::kOk;
  std::string what = {};  // one line
  std::string fix = {};   // what to type; empty if it is well
};

struct Checked {
  std::string_view id;
  Diagnosis diagnosis;
};

[[nodiscard]] std::vector<Checked> RunChecks(state::Host& host, const Inventory& inventory);

}  // namespace nomad_bridge::cli
