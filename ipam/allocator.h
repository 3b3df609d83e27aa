// Chooses one address from each range set: usually the address that has been free for longest.
//
// Order      Starts after the address given out last (last_reserved_ip), wrapping around: an
//            address is used again only after all others, unless it was requested, or the
//            attachment had it before. If the next hundred or so addresses are taken, chooses the
//            address after their block of leases; gaps inside that block wait for the next round.
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
  // The addresses that the user requested. Exactly one set must offer each of them.
  std::vector<Ip> requested;
  // The addresses that the attachment had before. Chosen again if they are free or still leased to
  // it.
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

// Writes the leases, and which address of each set was given out last. If one lease fails, releases
// the others, so that all or none are written. Throws kConflict if another owner took an address
// meanwhile (impossible under the lock).
void Reserve(Store& store, const std::vector<Assignment>& assignments, const LeaseOwner& owner);

}  // namespace nomad_bridge::ipam
