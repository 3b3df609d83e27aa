// What policies cost: ADD, packets, new connections, and `policy apply`, with none, 20 and 200 of
// them, in worlds of their own and in turns.
#pragma once

#include <ostream>

#include "tests/bench/options.h"

namespace nomad_bridge::bench {

// A table of medians and of their ratios to no policies, with what we want to stay below.
void MeasurePolicies(const Options& options, std::ostream& out);

}  // namespace nomad_bridge::bench
