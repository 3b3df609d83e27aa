// Where state of ours was written. What another boot or another network namespace wrote (a second
// "host" that shares /run) is not ours to use.
//
// Shape   boot_id as /proc/sys/kernel/random/boot_id has it, without the line end.
#pragma once

#include <string>

#include "netlink/core/netns.h"

namespace nomad_bridge::state {

struct Origin {
  std::string boot_id;
  netlink::NetnsId netns;

  bool operator==(const Origin&) const = default;
};

// This boot, and the namespace `host`.
[[nodiscard]] Origin OriginOf(const netlink::Netns& host);

// Where all of our state lies: "/run/nomad-bridge".
constexpr const char* kStateFolder = "/run/nomad-bridge";

}  // namespace nomad_bridge::state
