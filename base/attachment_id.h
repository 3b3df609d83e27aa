// The identity of one ADD: everything we keep is kept under it, and DEL needs nothing else.
//
// Shapes  network and container_id: [A-Za-z0-9][A-Za-z0-9_.-]*, any length; ifname: 1-15 bytes, no
//         '/', ':' or white space. Checked where they enter (plugin/request), assumed everywhere
//         else.
// Source  CNI specification 1.1.0, "Parameters": a plugin keys its state by (network,
//         CNI_CONTAINERID, CNI_IFNAME).
#pragma once

#include <compare>
#include <string>

namespace nomad_bridge {

struct AttachmentId {
  std::string network;
  std::string container_id;
  std::string ifname;

  auto operator<=>(const AttachmentId&) const = default;
};

}  // namespace nomad_bridge
