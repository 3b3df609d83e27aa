// Traces the next connection of a client to a published port, rule by rule. This is for faults that
// only some clients meet.
//
// Limits   Shows what nf_tables sees on the node: no routes, links, or rules of iptables-legacy.
// Changes  nothing permanently: see netlink/probe/observer.h
// Errors   kKernel
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "plugin/causes/connection.h"

namespace nomad_bridge::causes {

struct Traced {
  enum class Outcome : std::uint8_t { kAnswered, kUnanswered, kUnknown };

  // Lines such as "inet mine, chain early, rule with handle 2: drop", hook by hook. Lines about the
  // answer begin with "answer: ". If no rule shows why there is no answer, the last line gives the
  // reason.
  std::vector<std::string> lines;
  // For TCP: whether the client confirmed an answer. For UDP: whether a datagram got through, since
  // a service need not answer. kUnknown: nothing came before the deadline.
  Outcome outcome = Outcome::kUnknown;
};

// Waits for `connection.source`, and traces the first packet of each direction.
[[nodiscard]] Traced TraceClient(state::Host& host,
                                 const Connection& connection,
                                 Deadline deadline);

}  // namespace nomad_bridge::causes
