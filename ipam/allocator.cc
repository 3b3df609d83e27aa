#include "ipam/allocator.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge::ipam {
namespace {

// A run of addresses to try, from first to last.
struct Run {
  const Range* range = nullptr;
  Ip first;
  Ip last;
};

// Returns all of `set`: from the address after `last` to the end, then from the start to `last`. If
// `last` is not in the set, begins at the start.
std::vector<Run> RunsAfter(const RangeSet& set, const std::optional<Ip>& last) {
  std::vector<Run> runs;
  std::vector<Run> wrapped;
  bool is_behind = !last.has_value();
  for (const Range& range : set) {
    if (is_behind || !range.Contains(*last)) {
      (is_behind ? runs : wrapped).push_back({&range, range.first, range.last});
      continue;
    }
    is_behind = true;
    wrapped.push_back({&range, range.first, *last});
    if (*last != range.last) {
      runs.push_back({&range, last->Plus(1), range.last});
    }
  }
  runs.insert(runs.end(), wrapped.begin(), wrapped.end());
  return runs;
}

// Returns the range that offers `address`; the end if none does.
RangeSet::const_iterator FindOffer(const RangeSet& set, const Ip& address) {
  return std::ranges::find_if(set, [&](const Range& range) { return range.Offers(address); });
}

bool Offers(const RangeSet& set, const Ip& address) {
  return FindOffer(set, address) != set.end();
}

// Returns whether `owner` may have `address`: it is free, or `owner` has it already.
bool IsFor(const Store& store, const Ip& address, const LeaseOwner& owner) {
  if (store.IsFree(address)) {
    return true;
  }
  const std::optional<LeaseOwner> present = store.FindOwner(address);
  return present && present->Matches(owner);
}

// Searches for the next free address. Looks at single addresses, 2 us each, since a listing takes
// some 2 ms for 4,000 leases.
struct Search {
  const Store& store;
  const Request& request;

  // Returns nullopt if every address of `runs` is taken.
  [[nodiscard]] std::optional<Ip> FindFree(const std::vector<Run>& runs) const {
    for (const Run& run : runs) {
      std::optional<Ip> free = FindBehindBlock(run);
      if (!free) {
        free = FindOneByOne(run);
      }
      if (free) {
        return free;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] bool IsFree(const Run& run, const Ip& ip) const {
    return ip != run.range->gateway && store.IsFree(ip) && !request.is_in_use(ip);
  }

  // Usually the first address is free or, in a pool that is not nearly full, one of the first
  // hundred. If not, they belong to a block of leases. Leaps of doubling length then search for the
  // end of the block; they skip gaps inside it. Returns nullopt if every leap hits a lease.
  [[nodiscard]] std::optional<Ip> FindBehindBlock(const Run& run) const {
    constexpr int kSingleSteps = 128;
    constexpr std::uint64_t kMaxLeap = std::uint64_t{1} << 62;
    if (IsFree(run, run.first)) {
      return run.first;
    }
    Ip taken = run.first;
    const auto is_taken_at = [&](std::uint64_t leap) {
      const Ip ip = taken.Plus(leap);  // may wrap around
      return ip > taken && ip <= run.last && !IsFree(run, ip);
    };
    std::uint64_t leap = 1;
    for (int looks = 0; is_taken_at(leap); ++looks) {
      taken = taken.Plus(leap);
      leap = looks < kSingleSteps || leap == kMaxLeap ? leap : leap * 2;
    }
    // The block ends within the last leap.
    while ((leap /= 2) > 0) {
      taken = is_taken_at(leap) ? taken.Plus(leap) : taken;
    }
    return taken == run.last ? std::nullopt : std::optional(taken.Plus(1));
  }

  // Looks at one address after the other, for a run that is nearly full. Takes about as many steps
  // as there are leases, however long the run is.
  [[nodiscard]] std::optional<Ip> FindOneByOne(const Run& run) const {
    Ip ip = run.first;
    while (!IsFree(run, ip)) {
      if (ip == run.last) {
        return std::nullopt;
      }
      ip = ip.Plus(1);
    }
    return ip;
  }
};

// Assigns each requested address to the set that offers it; nullopt for sets without a request. The
// message is the reference plugin's, whose test suites look for it.
std::vector<std::optional<Ip>> PlaceRequests(const std::vector<RangeSet>& sets,
                                             const std::vector<Ip>& requested) {
  std::vector<std::optional<Ip>> places(sets.size());
  std::string unplaced;
  for (const Ip& address : requested) {
    const auto set =
        std::ranges::find_if(sets, [&](const RangeSet& each) { return Offers(each, address); });
    const auto index = static_cast<std::size_t>(set - sets.begin());
    if (set == sets.end() || places[index].value_or(address) != address) {
      unplaced += Cat(' ', address);
    } else {
      places[index] = address;
    }
  }
  if (!unplaced.empty()) {
    throw Error(Code::kInvalidConfig,
                Cat("failed to allocate all requested IPs:", unplaced),
                "allowed: one address from each set of ranges, inside a range and not its gateway");
  }
  return places;
}

void RequireFor(const Store& store, const Ip& address, const LeaseOwner& owner) {
  if (IsFor(store, address, owner)) {
    return;
  }
  const std::optional<LeaseOwner> present = store.FindOwner(address);
  std::string by = "a file in the data directory reserves it";
  if (present) {
    by = Format("by container '{}', interface '{}'", present->container_id, present->ifname);
  }
  throw Error(Code::kConflict, Cat("address ", address, " is taken"), by);
}

std::optional<Ip> FindPrevious(const Store& store, const RangeSet& set, const Request& request) {
  const auto found = std::ranges::find_if(request.previous, [&](const Ip& address) {
    return Offers(set, address) && !request.is_in_use(address) &&
           IsFor(store, address, request.owner);
  });
  return found == request.previous.end() ? std::nullopt : std::optional<Ip>(*found);
}

}  // namespace

Allocation Choose(const Store& store, const std::vector<RangeSet>& sets, const Request& request) {
  const Search search{store, request};
  const std::vector<std::optional<Ip>> requested = PlaceRequests(sets, request.requested);
  Allocation allocation;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    std::optional<Ip> address = requested[i];
    if (address) {
      RequireFor(store, *address, request.owner);
    } else {
      address = FindPrevious(store, sets[i], request);
    }
    if (!address) {
      address = search.FindFree(RunsAfter(sets[i], store.LastReserved(i)));
    }
    if (!address) {
      return {.full_set = i};
    }
    const Range& range = *FindOffer(sets[i], *address);
    allocation.assignments.push_back({.address = {*address, range.subnet.prefix_length},
                                      .gateway = range.gateway,
                                      .range_set = i});
  }
  return allocation;
}

void Reserve(Store& store, const std::vector<Assignment>& assignments, const LeaseOwner& owner) {
  std::vector<Ip> written;
  try {
    for (const Assignment& assignment : assignments) {
      const Ip& address = assignment.address.address;
      if (store.Reserve(address, owner)) {
        written.push_back(address);
        store.SetLastReserved(assignment.range_set, address);
      } else {
        RequireFor(store, address, owner);
      }
    }
  } catch (const Error&) {
    for (const Ip& address : written) {
      store.Release(address, owner);
    }
    throw;
  }
}

}  // namespace nomad_bridge::ipam
