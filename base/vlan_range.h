// A range of VLAN ids, as in configs and on bridge ports.
//
// Shapes     1 to 4094, first to last, both included
// Source     IEEE 802.1Q: 0 and 4095 are reserved.
#pragma once

#include <cstdint>

namespace nomad_bridge {

struct VlanRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  bool operator==(const VlanRange&) const = default;
};

}  // namespace nomad_bridge
