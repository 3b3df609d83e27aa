// What packets pay for a node's rules: ours, the reference plugins' and none but one, in turns.
#pragma once

#include <ostream>

#include <nlohmann/json.hpp>

#include "tests/bench/options.h"

namespace nomad_bridge::bench {

// Prints a table per number of attachments alive. Returns the figures: {"machine": {"cpus",
// "kernel"}, "data_path": [{"alive", "contender", "load", "way", "median_us"}, ...]}.
nlohmann::ordered_json MeasureDataPath(const Options& options, std::ostream& out);

}  // namespace nomad_bridge::bench
