#include "ipam/range.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge::ipam {
namespace {

// A subnet has a network address, a broadcast address, and at least two addresses to give out.
constexpr int kMinSubnetBits = 2;

// Returns the error that `value` of `key`, an address or a prefix, is invalid.
template <typename Value>
Error Wrong(const RangeSpec& spec, const char* key, const Value& value, std::string allowed) {
  return Error(Code::kInvalidConfig,
               Format("invalid '{}.{}': '{}'", spec.path, key, value.Text()),
               std::move(allowed));
}

void CheckSubnet(const RangeSpec& spec) {
  const Cidr& subnet = spec.subnet;
  const int longest = subnet.address.bits() - kMinSubnetBits;
  if (subnet.prefix_length > longest) {
    constexpr std::string_view kWhy = "too small for a gateway and a container; allowed: ";
    throw Wrong(spec, "subnet", subnet, Cat(kWhy, "prefix lengths up to ", longest));
  }
  if (subnet.address != subnet.Network()) {
    const Cidr network{subnet.Network(), subnet.prefix_length};
    const std::string why = Format("it has host bits set; the network is '{}'", network);
    throw Wrong(spec, "subnet", subnet, why);
  }
}

void CheckInside(const RangeSpec& spec, const char* key, const std::optional<Ip>& address) {
  if (address && !spec.subnet.Contains(*address)) {
    throw Wrong(
        spec, key, *address, Cat("allowed: an address inside the range's subnet ", spec.subnet));
  }
}

// Returns the first address of a subnet that an interface can have. IPv6 has no broadcast address,
// but the subnet's first address is the routers' anycast address (RFC 4291, 2.6.1).
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
  const Ip first = FirstUsable(spec.subnet);
  const Ip last = LastUsable(spec.subnet);
  if (spec.gateway && (*spec.gateway < first || *spec.gateway > last)) {
    const std::string why =
        Format("the network's own or broadcast address; allowed: {} to {}", first, last);
    throw Wrong(spec, "gateway", *spec.gateway, why);
  }
}

Range MakeRange(const RangeSpec& spec) {
  CheckSubnet(spec);
  CheckInside(spec, "rangeStart", spec.start);
  CheckInside(spec, "rangeEnd", spec.end);
  CheckGateway(spec);
  if (spec.start && spec.end && *spec.start > *spec.end) {
    throw Wrong(spec, "rangeStart", *spec.start, Cat("it comes after rangeEnd, ", *spec.end));
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
        spec.end ? *spec.end : *spec.start,
        Format("nothing is left to give out; usable in {}: {} to {}", spec.subnet, first, last));
  }
  return range;
}

std::string Text(const Range& range) {
  return Format("{} to {}", range.first, range.last);
}

// A range and the place in the config that it comes from.
struct Placed {
  const RangeSpec* spec = nullptr;
  Range range;
};

void CheckApart(const Placed& placed, const std::vector<Placed>& before) {
  for (const Placed& other : before) {
    if (placed.range.Contains(other.range.first) || other.range.Contains(placed.range.first)) {
      const std::string keys = Format("'{}' and '{}'", other.spec->path, placed.spec->path);
      throw Error(Code::kInvalidConfig,
                  Cat("config keys ", keys, " overlap"),
                  Format("{}, and {}", Text(other.range), Text(placed.range)));
    }
  }
}

void CheckFamily(const RangeSpec& spec, const RangeSpec& first_of_set) {
  if (spec.subnet.address.family() != first_of_set.subnet.address.family()) {
    const std::string why = Format(
        "another family than {} in the same set; allowed: one set per family", first_of_set.subnet);
    throw Wrong(spec, "subnet", spec.subnet, why);
  }
}

}  // namespace

std::uint64_t CountOffered(const Range& range) {
  constexpr std::uint64_t kMany = std::uint64_t{1} << 63;
  std::uint64_t distance = 0;
  const std::span<const std::uint8_t> first = range.first.bytes();
  const std::span<const std::uint8_t> last = range.last.bytes();
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (distance >= kMany >> 8) {
      return kMany;
    }
    // Modulo 2^64: a borrow from a higher byte is already in `distance`.
    distance = (distance << 8) + last[i] - first[i];
  }
  return distance + (range.Contains(range.gateway) ? 0 : 1);
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
