// What operators type and units run: how long it takes beside attachments that are alive.
#pragma once

#include <ostream>

#include "tests/bench/options.h"

namespace nomad_bridge::bench {

// A table of medians, with what we want to stay below. std::runtime_error if a command cannot tell.
void MeasureCommands(const Options& options, std::ostream& out);

}  // namespace nomad_bridge::bench
