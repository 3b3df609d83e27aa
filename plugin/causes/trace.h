// One connection to a published port, traced by nf_tables on the node: for what cannot be told by
// looking.
//
// Changes  nothing that stays: see netlink/nft/trace.h.
// Limits   What nf_tables sees: rules of iptables-legacy, routes and links are not among it; nor is
//          what drops a packet before the prerouting hook.
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
  // comes back. Where no rule says why there is no answer, the last one says that.
  std::vector<std::string> lines;
  // Of TCP as its two ends see it. UDP is answered if nothing that was seen has been lost: a
  // service need not answer.
  Outcome outcome = Outcome::kUnknown;
};

// Of a connection that the node itself begins, or, with a client that was named, of the first that
// comes from there before the deadline; of each direction the first packet.
[[nodiscard]] Traced TraceConnection(state::Host& host,
                                     const Connection& connection,
                                     Deadline deadline);

}  // namespace nomad_bridge::causes
