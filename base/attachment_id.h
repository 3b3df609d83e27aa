// The identity of an attachment: all state is keyed by it, and DEL needs nothing else.
//
// Shapes     network and container_id: [A-Za-z0-9][A-Za-z0-9_.-]*, any length; ifname: 1-15 bytes,
//            no '/', ':' or white space. Checked on entry (plugin/cni/request.h), assumed
//            elsewhere.
// Source     CNI specification 1.1.0, "Parameters": a plugin keys its state by (network,
//            CNI_CONTAINERID, CNI_IFNAME).
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
