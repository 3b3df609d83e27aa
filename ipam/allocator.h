// Choosing addresses: one from each range set, the one that has been free for longest first.
//
// Order   From the address after the last one given out (last_reserved_ip), wrapping: an address
//         comes again only after all others, unless it was requested or had before. If the next
//         hundred or so are taken, the end of the block they are in; what is free further ahead
//         inside that block has to wait for the next round. Only in a pool that is nearly full the
//         folder is listed, once; no file is opened in search of a free address.
// Errors  kConflict if a requested address is somebody else's; kInvalidConfig if no range offers
//         it, or two requests fall into one set. A full pool is an answer: Choice::full_set.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
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
  // What the user asked for; each must be offered by exactly one set.
  std::vector<Ip> requested;
  // What the attachment had before: taken if still free or still its own.
  std::vector<Ip> previous;
  // Not to be chosen although nobody has leased them here.
  std::vector<Ip> avoided;
  LeaseOwner owner;
};

struct Allocation {
  std::vector<Assignment> assignments;  // one per set, in their order; none if a set is full
  std::optional<std::size_t> full_set;  // the set that has no free address
};

// Chooses without writing anything: the caller records its intent first, then calls Reserve() under
// the same Store.
[[nodiscard]] Allocation Choose(const Store& store,
                                const std::vector<RangeSet>& sets,
                                const Request& request);

// Writes the leases and the marks of what was given out last. All or none: gives back what it took
// if one fails. Throws kConflict if an address was taken meanwhile by another holder (it cannot be,
// under the lock).
void Reserve(Store& store, const std::vector<Assignment>& assignments, const LeaseOwner& owner);

}  // namespace nomad_bridge::ipam
