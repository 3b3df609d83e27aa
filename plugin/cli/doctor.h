// Whether the node is well: the checks of `doctor`, which `metrics` counts, too.
//
// Ids      stable; doctor_checks.h has the tables of them. Each check gives one result, or one per mismatch.
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

struct CheckResult {
  Verdict verdict = Verdict::kOk;
  std::string what = {};  // one line
  std::string fix = {};   // what to type; empty if it is well
};

struct Checked {
  std::string_view id;
  CheckResult result;
};

// What a check costs: one that is dear asks for every attachment, reads large files, or starts another
// program. `metrics`, which runs every half minute, leaves those out.
enum class Cost { kCheap, kDear };

[[nodiscard]] std::vector<Checked> RunChecks(state::Host& host,
                                             const Inventory& inventory,
                                             Cost most);

}  // namespace nomad_bridge::cli
