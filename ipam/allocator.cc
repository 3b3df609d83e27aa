#include "ipam/allocator.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge::ipam {
namespace {

// A run of addresses to try, first to last.
struct Run {
  const Range* range = nullptr;
  Ip first;
  Ip last;
};

bool IsBetween(const Ip& ip, const Ip& first, const Ip& last) {
  return ip.family() == first.family() && ip >= first && ip <= last;
}

// How many steps lie between `from` and `to`, which is not before it; at most 2^64-1, as an IPv6
// range can be longer.
std::uint64_t Steps(const Ip& from, const Ip& to) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const std::span<const std::uint8_t> low = from.bytes();
  const std::span<const std::uint8_t> high = to.bytes();
  std::uint64_t steps = 0;
  for (std::size_t i = 0; i < low.size(); ++i) {
    if (steps >= kMost / 256) {
      return kMost;
    }
    // Single digits of the difference may be negative; the sum up to any digit is not.
    steps = steps * 256 + high[i] - low[i];
  }
  return steps;
}

// All of `set`, from the address after `last` to the end, then from the start up to `last`. From
// its start if `last` is none of its addresses.
std::vector<Run> RunsAfter(const RangeSet& set, const std::optional<Ip>& last) {
  std::vector<Run> runs;
  std::vector<Run> wrapped;
  bool is_behind = !last.has_value();
  for (const Range& range : set) {
    const bool has_last = !is_behind && IsBetween(*last, range.first, range.last);
    if (!has_last) {
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

// The first address of `run` that is not in `taken`.
std::optional<Ip> FindGap(const Run& run, const std::vector<Ip>& taken) {
  // Of the first taken+2 addresses one must be free (the gateway is the one more), so only these
  // need marks, however long the run is.
  const std::uint64_t length =
      std::min<std::uint64_t>(Steps(run.first, run.last), taken.size() + 1);
  std::vector<bool> is_taken(static_cast<std::size_t>(length) + 1);
  const auto mark = [&](const Ip& ip) {
    if (ip.family() != run.first.family() || ip < run.first) {
      return;
    }
    if (const std::uint64_t offset = Steps(run.first, ip); offset <= length) {
      is_taken[static_cast<std::size_t>(offset)] = true;
    }
  };
  std::for_each(taken.begin(), taken.end(), mark);
  mark(run.range->gateway);
  const auto gap = std::find(is_taken.begin(), is_taken.end(), false);
  if (gap == is_taken.end()) {
    return std::nullopt;
  }
  return run.first.Plus(static_cast<std::uint64_t>(gap - is_taken.begin()));
}

Assignment Assign(const RangeSet& set, std::size_t index, const Ip& address) {
  const auto range = std::find_if(
      set.begin(), set.end(), [&](const Range& candidate) { return candidate.Offers(address); });
  return {.address = {address, range->subnet.prefix_length},
          .gateway = range->gateway,
          .range_set = index};
}

bool Offers(const RangeSet& set, const Ip& address) {
  return std::any_of(
      set.begin(), set.end(), [&](const Range& range) { return range.Offers(address); });
}

// Whether `owner` may have `address`: nobody has it, or `owner` itself.
bool IsFor(const Store& store, const Ip& address, const LeaseOwner& owner) {
  if (store.IsFree(address)) {
    return true;
  }
  const std::optional<LeaseOwner> present = store.FindOwner(address);
  return present && present->Matches(owner);
}

bool IsIn(const std::vector<Ip>& list, const Ip& ip) {
  return std::find(list.begin(), list.end(), ip) != list.end();
}

// One command's view of the leases: the folder is listed at most once, whatever the number of sets.
class Chooser {
 public:
  Chooser(const Store& store, const std::vector<Ip>& avoided)
      : store_(&store), avoided_(&avoided) {}

  // The address of `set` that has been free for longest; nullopt if all are taken.
  [[nodiscard]] std::optional<Ip> FindFree(const RangeSet& set, std::size_t index) {
    const std::vector<Run> runs = RunsAfter(set, store_->LastReserved(index));
    if (const std::optional<Ip> near = LookAhead(runs)) {
      return near;
    }
    if (const std::optional<Ip> far = LeapAhead(runs)) {
      return far;
    }
    for (const Run& run : runs) {
      if (const std::optional<Ip> gap = FindGap(run, InUse())) {
        return gap;
      }
    }
    return FindAbandoned(set);
  }

 private:
  [[nodiscard]] bool IsFree(const Run& run, const Ip& ip) const {
    return ip != run.range->gateway && !IsIn(*avoided_, ip) && store_->IsFree(ip);
  }

  // Mostly the very next one is free, and unless a pool is nearly full one of the next hundred
  // is. A look takes 2 us, a listing of 4,000 leases 1 to 2 ms.
  [[nodiscard]] std::optional<Ip> LookAhead(const std::vector<Run>& runs) const {
    constexpr int kLooks = 128;
    int looks = 0;
    for (const Run& run : runs) {
      for (Ip ip = run.first; looks < kLooks; ip = ip.Plus(1)) {
        ++looks;
        if (IsFree(run, ip)) {
          return ip;
        }
        if (ip == run.last) {
          break;
        }
      }
    }
    return std::nullopt;
  }

  // If they are all taken it is mostly because a solid block of leases lies ahead: leaps of doubled
  // length find a free address behind it, and halving the last one finds the block's end.
  [[nodiscard]] std::optional<Ip> LeapAhead(const std::vector<Run>& runs) const {
    for (const Run& run : runs) {
      if (IsFree(run, run.first)) {
        return run.first;
      }
      const std::uint64_t last = Steps(run.first, run.last);
      std::uint64_t taken = 0;
      while (taken != last) {
        const std::uint64_t next = taken < last / 2 ? std::max<std::uint64_t>(1, taken * 2) : last;
        if (IsFree(run, run.first.Plus(next))) {
          return FindEnd(run, taken, next);
        }
        taken = next;
      }
    }
    return std::nullopt;
  }

  // The first free address behind a block that holds `taken` and ends before `free`.
  [[nodiscard]] Ip FindEnd(const Run& run, std::uint64_t taken, std::uint64_t free) const {
    while (free - taken > 1) {
      const std::uint64_t middle = taken + (free - taken) / 2;
      (IsFree(run, run.first.Plus(middle)) ? free : taken) = middle;
    }
    return run.first.Plus(free);
  }

  [[nodiscard]] const std::vector<Ip>& InUse() {
    if (!is_listed_) {
      taken_ = store_->InUse();
      taken_.insert(taken_.end(), avoided_->begin(), avoided_->end());
      is_listed_ = true;
    }
    return taken_;
  }

  // A full pool may hold empty files, which the listing cannot tell from leases.
  [[nodiscard]] std::optional<Ip> FindAbandoned(const RangeSet& set) {
    const std::vector<Ip>& taken = InUse();
    const auto found = std::find_if(taken.begin(), taken.end(), [&](const Ip& address) {
      return Offers(set, address) && !IsIn(*avoided_, address) && store_->IsFree(address);
    });
    return found == taken.end() ? std::nullopt : std::optional<Ip>(*found);
  }

  const Store* store_;
  const std::vector<Ip>* avoided_;
  std::vector<Ip> taken_;
  bool is_listed_ = false;
};

// Puts each requested address where it is offered; nullopt for sets without a request. The message
// is the reference plugin's, whose test suites look for it.
std::vector<std::optional<Ip>> PlaceRequests(const std::vector<RangeSet>& sets,
                                             const std::vector<Ip>& requested) {
  std::vector<std::optional<Ip>> places(sets.size());
  std::string unplaced;
  for (const Ip& address : requested) {
    const auto set = std::find_if(sets.begin(), sets.end(), [&](const RangeSet& candidate) {
      return Offers(candidate, address);
    });
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
  throw Error(Code::kConflict,
              Cat("address ", address, " is taken"),
              present ? Cat("by container ",
                            Quoted(present->container_id),
                            ", interface ",
                            Quoted(present->ifname))
                      : "by a lease that names nobody");
}

std::optional<Ip> FindPrevious(const Store& store, const RangeSet& set, const Request& request) {
  const auto found =
      std::find_if(request.previous.begin(), request.previous.end(), [&](const Ip& address) {
        return Offers(set, address) && !IsIn(request.avoided, address) &&
               IsFor(store, address, request.owner);
      });
  return found == request.previous.end() ? std::nullopt : std::optional<Ip>(*found);
}

}  // namespace

Allocation Choose(const Store& store, const std::vector<RangeSet>& sets, const Request& request) {
  Chooser chooser(store, request.avoided);
  const std::vector<std::optional<Ip>> requested = PlaceRequests(sets, request.requested);
  Allocation choice;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    std::optional<Ip> address = requested[i];
    if (address) {
      RequireFor(store, *address, request.owner);
    } else {
      address = FindPrevious(store, sets[i], request);
    }
    if (!address) {
      address = chooser.FindFree(sets[i], i);
    }
    if (!address) {
      return {.assignments = {}, .full_set = i};
    }
    choice.assignments.push_back(Assign(sets[i], i, *address));
  }
  return choice;
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
