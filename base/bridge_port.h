// What a port of a bridge is: its flags and its VLANs, as configs ask for them and the kernel has
// them.
//
// Shapes     VLAN ids from 1 to 4094; a range has both its ends
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

// Which VLANs a port is to be a member of.
struct PortVlans {
  std::uint16_t untagged = 0;  // PVID, and untagged on the way out; 0: none
  std::vector<VlanRange> tagged;
  bool keep_default = false;  // other memberships stay, the bridge's default one among them
};

struct PortFlags {
  bool hairpin = false;   // frames may leave by the port they came in by
  bool isolated = false;  // exchanges no frames with other isolated ports
  // Frames to the groups that a bridge otherwise keeps for itself (01:80:c2:00:00:00 to 0f, but for
  // pause frames) are handled as all others, so that they pass the bridge family's rules.
  bool forwards_groups = false;

  bool operator==(const PortFlags&) const = default;
};

}  // namespace nomad_bridge
