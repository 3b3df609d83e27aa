// Asks a DNS server for the addresses of a name, from another network namespace.
//
// Limits  One query over UDP, without EDNS; a truncated answer without an address counts as failed.
// Errors  kKernel if a socket cannot be opened.
// Source  RFC 1035, RFC 3596
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "base/ip.h"
#include "netlink/core/netns.h"

namespace nomad_bridge::sockets {

struct NameAnswer {
  enum class Outcome : std::uint8_t {
    kAnswered,     // `addresses` may be empty: the name has none of that family
    kNoSuchName,   // NXDOMAIN
    kRefused,      // the server answers, but not this question: SERVFAIL, REFUSED
    kUnreachable,  // there is no way to the server, or nobody listens there
    kSilent,       // nothing came before the deadline
  };

  Outcome outcome = Outcome::kSilent;
  std::vector<Ip> addresses = {};

  // Returns whether the server has spoken, so that it knows the name or does not.
  [[nodiscard]] bool IsKnown() const { return outcome <= Outcome::kNoSuchName; }
};

// `name` has no dot at its end.
[[nodiscard]] NameAnswer AskNameServer(const netlink::Netns& ns,
                                       const Ip& server,
                                       const std::string& name,
                                       Family family,
                                       Deadline deadline);

}  // namespace nomad_bridge::sockets
