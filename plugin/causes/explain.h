// Probes a connection, and explains why the packet, or its answer, got no further. Where the packet
// was last seen decides what to ask the kernel.
//
// Errors   kKernel
#pragma once

#include "base/finding.h"
#include "plugin/causes/way.h"

namespace nomad_bridge::causes {

struct Diagnosis {
  Way way;
  FindingList causes;       // empty: the connection was answered
  FindingList unseen;       // what a client's packets meet, but the probe did not
  bool is_by_rule = false;  // the kernel has named a rule; false: deduced from the last station
  bool is_in_container = false;  // the connection ended in a container
  bool is_refused = false;       // nobody listens
  bool is_by_policy = false;     // our policies refuse it: no fault
  // Somebody else's rule keeps it from the node itself (hook input), or redirects what should leave
  // the node. Both may be meant.
  bool is_kept = false;
  std::string note;  // what people should know of a connection that was answered
};

// Probes the connection. Throws kKernel if it got no answer, and the kernel has
// lost a part of the trace.
// REQUIRES: its protocol is TCP or UDP.
[[nodiscard]] Diagnosis Diagnose(NodeFacts& facts, const Connection& connection);

}  // namespace nomad_bridge::causes
