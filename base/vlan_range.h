// A range of VLAN ids, as configs name them and bridge ports have them.
//
// Shape   1 to 4094, from the first to the last, both included.
// Source  IEEE 802.1Q: 0 and 4095 are reserved.
#pragma once

#include <cstdint>

namespace nomad_bridge {

struct VlanRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  bool operator==(const VlanRange&) const = default;
};

}  // namespace nomad_bridge
