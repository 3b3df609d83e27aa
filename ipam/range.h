// Ranges: the addresses that a network may give out, validated.
//
// Shapes     A Range is part of one subnet, first to last, both included. A RangeSet is several
//            ranges of one family; an attachment gets one address from each set. The network's own
//            address, its (IPv4) broadcast address and the gateway are never given out. A
//            rangeStart or rangeEnd on one of these is allowed, as in the reference, and means the
//            next address inward.
// Errors     kInvalidConfig naming the key by its path ("ipam.ranges[0][1].rangeEnd"), the value
//            and what is allowed.
// Ownership  plain values; pure functions
// Source     CNI plugins, host-local's range.go; its defaults: gateway and rangeStart network+1,
//            rangeEnd broadcast-1 for IPv4, all ones for IPv6.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ip.h"

namespace nomad_bridge::ipam {

// One range as it is in the config.
struct RangeSpec {
  std::string path;  // for messages: "ipam.ranges[0][0]"
  Cidr subnet;
  std::optional<Ip> start;
  std::optional<Ip> end;
  std::optional<Ip> gateway;
};

struct Range {
  Cidr subnet;  // network address and prefix length
  Ip first;
  Ip last;
  Ip gateway;

  [[nodiscard]] bool Contains(const Ip& ip) const {
    return ip.family() == first.family() && ip >= first && ip <= last;
  }
  // Returns whether `ip` may be given out: it is inside, and is not the gateway.
  [[nodiscard]] bool Offers(const Ip& ip) const { return Contains(ip) && ip != gateway; }
};

using RangeSet = std::vector<Range>;

// Returns how many addresses `range` can give out; at most 2^63.
[[nodiscard]] std::uint64_t CountOffered(const Range& range);

// Validates, and fills in the defaults. Refuses: subnets longer than /30 (/126) or with host
// bits set; a start, end or gateway outside its subnet; the subnet's own or broadcast address as
// gateway; start > end; two families in one set; an empty set; ranges that overlap, in a set or
// between sets.
[[nodiscard]] std::vector<RangeSet> MakeRangeSets(const std::vector<std::vector<RangeSpec>>& specs);

}  // namespace nomad_bridge::ipam
