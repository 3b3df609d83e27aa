// Why a probe's packet, or its answer, got no further than it did: one question more to the kernel,
// by where it was seen last.
//
// Errors   kKernel
#pragma once

#include "plugin/causes/cause.h"
#include "plugin/causes/way.h"

namespace nomad_bridge::causes {

struct Diagnosis {
  Way way;
  Causes causes;                 // empty: it was answered
  bool is_by_rule = false;       // the kernel has named a rule; else it follows from the way
  bool is_in_container = false;  // where it ended
  bool is_refused = false;       // nobody listens
  bool is_by_policy = false;     // of ours: whom it keeps out is no fault
};

// Probes the connection. Throws kKernel if the kernel has lost a part of the trace.
// REQUIRES: its protocol is TCP or UDP.
[[nodiscard]] Diagnosis Diagnose(NodeFacts& facts, const Connection& connection);

}  // namespace nomad_bridge::causes
