// Chooses addresses: one from each range set, the one that has been free for longest first.
//
// Order      Starts after the address given out last (last_reserved_ip), wrapping around: an
//            address is used again only after all others, unless it was requested, or the
//            attachment had it before. If the next hundred or so are taken, chooses the address
//            behind the block of leases that they are in; gaps inside that block wait for the next
//            round.
// Errors     kConflict if a requested address belongs to another owner; kInvalidConfig if no range
//            offers it, or two requests are in one set. A full pool is a result:
//            Allocation::full_set.
// Locks      The Store that is passed in holds the lock.
// Ownership  Reserve() writes leases; until then nothing is taken.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "base/ip.h"
#include "ipam/range.h"
#include "ipam/store.h"

namespace nomad_bridge::ipam {

struct Assignment {
  Cidr address;  // with the subnet's prefix length
  Ip gateway;
  std::size_t range_set = 0;
};

struct Request {
  // What the user requested; each must be offered by exactly one set.
  std::vector<Ip> requested;
  // What the attachment had before: taken again if it is free or its own.
  std::vector<Ip> previous;
  // Returns whether an address without a lease is in use. Called for the few addresses that would
  // be chosen, but not for requested ones.
  std::function<bool(const Ip&)> is_in_use = [](const Ip&) { return false; };
  LeaseOwner owner;
};

struct Allocation {
  std::vector<Assignment> assignments;  // one per set, in their order; none if a set is full
  std::optional<std::size_t> full_set;  // the set that has no free address
};

// Chooses addresses and writes nothing: the caller writes its record first, then calls Reserve()
// under the same Store.
[[nodiscard]] Allocation Choose(const Store& store,
                                const std::vector<RangeSet>& sets,
                                const Request& request);

// Writes the leases and which addresses were given out last. All or none: releases what it has
// reserved if one fails. Throws kConflict if another owner took an address meanwhile (impossible
// under the lock).
void Reserve(Store& store, const std::vector<Assignment>& assignments, const LeaseOwner& owner);

}  // namespace nomad_bridge::ipam
