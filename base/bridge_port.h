// The flags and VLANs of a bridge port, as in configs and in the kernel.
//
// Shapes     VLAN ids from 1 to 4094; a range includes both its ends
// Source     linux/if_link.h, IFLA_BRPORT_*; IEEE 802.1Q: ids 0 and 4095 are reserved.
#pragma once

#include <cstdint>
#include <vector>

namespace nomad_bridge {

struct VlanRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  bool operator==(const VlanRange&) const = default;
};

// The VLANs that a port is a member of.
struct PortVlans {
  std::uint16_t untagged = 0;  // PVID, and untagged on the way out; 0: none
  std::vector<VlanRange> tagged;
  bool keep_default = false;  // other memberships stay, including the bridge's default
};

struct PortFlags {
  bool hairpin = false;   // frames may leave by the port they came in by
  bool isolated = false;  // exchanges no frames with other isolated ports
  // Forwards frames to the groups that a bridge otherwise keeps for itself (01:80:c2:00:00:00 to
  // 0f, except pause frames), so that they pass the bridge family's rules.
  bool forwards_groups = false;

  bool operator==(const PortFlags&) const = default;
};

}  // namespace nomad_bridge
