#include "ipam/range.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge::ipam {
namespace {

// Network, broadcast, and two addresses to give out.
constexpr int kSmallestSubnetBits = 2;

Error Wrong(const RangeSpec& spec, const char* key, const std::string& value, std::string allowed) {
  return Error(Code::kInvalidConfig,
               Cat("invalid ", Quoted(Cat(spec.path, '.', key)), ": ", Quoted(value)),
               std::move(allowed));
}

void CheckSubnet(const RangeSpec& spec) {
  const Cidr& subnet = spec.subnet;
  const int longest = subnet.address.bits() - kSmallestSubnetBits;
  if (subnet.prefix_length > longest) {
    throw Wrong(
        spec,
        "subnet",
        subnet.Text(),
        Cat("too small for a gateway and a container; allowed: prefix lengths up to ", longest));
  }
  if (subnet.address != subnet.Network()) {
    throw Wrong(spec,
                "subnet",
                subnet.Text(),
                Cat("it has host bits set; the network is '",
                    Cidr{subnet.Network(), subnet.prefix_length},
                    "'"));
  }
}

void CheckInside(const RangeSpec& spec, const char* key, const std::optional<Ip>& address) {
  if (address && !spec.subnet.Contains(*address)) {
    throw Wrong(spec,
                key,
                address->Text(),
                Cat("allowed: an address inside the range's subnet ", spec.subnet));
  }
}

// The addresses of a subnet that an interface can have. IPv6 has no broadcast address; the subnet's
// first address is the routers' anycast address (RFC 4291, 2.6.1).
Ip FirstUsable(const Cidr& subnet) {
  return subnet.Network().Plus(1);
}

Ip LastUsable(const Cidr& subnet) {
  if (!subnet.address.is_ipv4()) {
    return subnet.Last();
  }
  const std::uint64_t addresses = std::uint64_t{1}
                                  << (subnet.address.bits() - subnet.prefix_length);
  return subnet.Network().Plus(addresses - 2);
}

void CheckGateway(const RangeSpec& spec) {
  CheckInside(spec, "gateway", spec.gateway);
  if (spec.gateway &&
      (*spec.gateway < FirstUsable(spec.subnet) || *spec.gateway > LastUsable(spec.subnet))) {
    throw Wrong(spec,
                "gateway",
                spec.gateway->Text(),
                Cat("the network's own or broadcast address; allowed: ",
                    FirstUsable(spec.subnet),
                    " to ",
                    LastUsable(spec.subnet)));
  }
}

Range MakeRange(const RangeSpec& spec) {
  CheckSubnet(spec);
  CheckInside(spec, "rangeStart", spec.start);
  CheckInside(spec, "rangeEnd", spec.end);
  CheckGateway(spec);
  if (spec.start && spec.end && *spec.start > *spec.end) {
    throw Wrong(
        spec, "rangeStart", spec.start->Text(), Cat("it comes after rangeEnd, ", *spec.end));
  }
  const Ip first = FirstUsable(spec.subnet);
  const Ip last = LastUsable(spec.subnet);
  const Range range{.subnet = spec.subnet,
                    .first = std::max(spec.start.value_or(first), first),
                    .last = std::min(spec.end.value_or(last), last),
                    .gateway = spec.gateway.value_or(first)};
  if (range.first > range.last) {
    throw Wrong(
        spec,
        spec.end ? "rangeEnd" : "rangeStart",
        spec.end ? spec.end->Text() : spec.start->Text(),
        Cat("nothing is left to give out; usable in ", spec.subnet, ": ", first, " to ", last));
  }
  return range;
}

bool Overlap(const Range& one, const Range& other) {
  return one.first.family() == other.first.family() && one.first <= other.last &&
         other.first <= one.last;
}

// Every range with where it stands, in the order of the config.
struct Placed {
  const RangeSpec* spec = nullptr;
  Range range;
};

void CheckApart(const Placed& placed, const std::vector<Placed>& before) {
  for (const Placed& other : before) {
    if (Overlap(placed.range, other.range)) {
      throw Error(Code::kInvalidConfig,
                  Cat("config keys ",
                      Quoted(other.spec->path),
                      " and ",
                      Quoted(placed.spec->path),
                      " overlap"),
                  Cat(other.range.first,
                      " to ",
                      other.range.last,
                      ", and ",
                      placed.range.first,
                      " to ",
                      placed.range.last));
    }
  }
}

void CheckFamily(const RangeSpec& spec, const RangeSpec& first_of_set) {
  if (spec.subnet.address.family() != first_of_set.subnet.address.family()) {
    throw Wrong(spec,
                "subnet",
                spec.subnet.Text(),
                Cat("another family than ",
                    first_of_set.subnet,
                    " in the same set; allowed: one set per family"));
  }
}

}  // namespace

bool Range::Offers(const Ip& ip) const {
  return ip.family() == first.family() && ip >= first && ip <= last && ip != gateway;
}

std::vector<RangeSet> MakeRangeSets(const std::vector<std::vector<RangeSpec>>& specs) {
  std::vector<RangeSet> sets;
  std::vector<Placed> all;
  for (const std::vector<RangeSpec>& set_specs : specs) {
    if (set_specs.empty()) {
      throw Error(Code::kInvalidConfig,
                  Cat("IP range set ", sets.size(), " of the network is empty"),
                  "allowed: at least one range with a subnet");
    }
    RangeSet& set = sets.emplace_back();
    for (const RangeSpec& spec : set_specs) {
      CheckFamily(spec, set_specs.front());
      const Placed placed{.spec = &spec, .range = MakeRange(spec)};
      CheckApart(placed, all);
      all.push_back(placed);
      set.push_back(placed.range);
    }
  }
  return sets;
}

}  // namespace nomad_bridge::ipam
