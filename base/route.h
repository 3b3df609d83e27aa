// A unicast route, as in configs, results and the kernel.
//
// Shapes     0 or nullopt: not given, the kernel chooses
// Units      MTU and advmss in bytes; scope and table as numbered by rtnetlink(7)
// Source     CNI specification 1.1.0, "routes"; rtnetlink(7).
#pragma once

#include <cstdint>
#include <optional>

#include "base/ip.h"

namespace nomad_bridge {

struct Route {
  static constexpr std::uint32_t kMainTable = 254;

  Cidr destination;
  std::optional<Ip> gateway;
  int mtu = 0;
  int advmss = 0;
  std::uint32_t priority = 0;
  std::optional<std::uint32_t> table;  // default: main
  std::optional<int> scope;            // default: universe (0) with a gateway, link (253) without

  // Returns the table: main if none or 0 is given.
  [[nodiscard]] std::uint32_t Table() const { return table.value_or(0) != 0 ? *table : kMainTable; }
  // Returns whether packets to anywhere take this route, without rules for their source.
  [[nodiscard]] bool IsDefault() const {
    return destination.prefix_length == 0 && Table() == kMainTable;
  }

  bool operator==(const Route&) const = default;
};

}  // namespace nomad_bridge
