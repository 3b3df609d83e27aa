// A unicast route, as configs and results name it and the kernel has it.
//
// Shapes   0 or nullopt means "not said": the kernel's own choice. MTU and advmss in bytes; scope and
//          table as rtnetlink(7) numbers them.
// Source   CNI specification 1.1.0, "routes"; rtnetlink(7).
#pragma once

#include <cstdint>
#include <optional>

#include "base/ip.h"

namespace nomad_bridge {

struct Route {
  Cidr destination;
  std::optional<Ip> gateway;
  int mtu = 0;  // 0 = none, as are all below
  int advmss = 0;
  std::uint32_t priority = 0;
  std::optional<std::uint32_t> table;  // main, unless given
  // universe (0) with a gateway, link (253) without, unless given
  std::optional<int> scope;

  bool operator==(const Route&) const = default;
};

}  // namespace nomad_bridge
