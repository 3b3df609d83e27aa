// In which boot and host namespace state was written. That of another one (a second "host" that
// shares /run) is not ours to use.
//
// Shape   boot_id as in /proc/sys/kernel/random/boot_id, without the line end.
#pragma once

#include <string>

#include "netlink/core/netns.h"

namespace nomad_bridge::state {

struct Origin {
  std::string boot_id;
  netlink::NetnsId netns;

  bool operator==(const Origin&) const = default;
};

// The directory of all our state: "/run/nomad-bridge".
constexpr const char* kStateDirectory = "/run/nomad-bridge";

}  // namespace nomad_bridge::state
