// The next connection that a client begins to a published port, rule by rule: for what only some
// clients meet.
//
// Limits   It shows what nf_tables sees on the node: no routes, links, or rules of iptables-legacy.
// Changes  nothing that stays: see netlink/probe/observer.h
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

  // "inet mine, chain early, rule with handle 2: drop", hook by hook; "answer: " in front of what
  // comes back. Where no rule says why there is no answer, the last line does.
  std::vector<std::string> lines;
  // Of TCP: whether the client confirmed an answer. Of UDP: whether a datagram got through, as a
  // service need not answer. kUnknown: nothing came before the deadline.
  Outcome outcome = Outcome::kUnknown;
};

// Waits for `connection.source`; of each direction the first packet is traced.
[[nodiscard]] Traced TraceClient(state::Host& host,
                                 const Connection& connection,
                                 Deadline deadline);

}  // namespace nomad_bridge::causes
