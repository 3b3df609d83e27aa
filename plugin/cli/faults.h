// How many faults each of doctor's checks finds, for metrics.
//
// Shapes   by the id of the check ("forward.foreign"): FAIL and WARN alike
// Errors   none: a check that cannot be done is left out
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "plugin/cli/inventory.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

[[nodiscard]] std::map<std::string, std::uint64_t> CountFaults(state::Host& host,
                                                               const Inventory& inventory);

}  // namespace nomad_bridge::cli
