// Why a port of a bridge does not forward, although it has a carrier.
//
// Source   bridge(8), linux/if_bridge.h: BR_STATE_...
#pragma once

#include <string>

#include "base/fix.h"
#include "netlink/rtnl/rtnl.h"

namespace nomad_bridge::link {

struct HeldPort {
  std::string text;  // "does not forward"
  Fix fix;
  bool is_passing = false;  // it passes by itself
};

// REQUIRES: `port`, of `bridge`, is operational, and does not forward.
[[nodiscard]] HeldPort DescribeHeldPort(const rtnl::Link& port, const rtnl::Link& bridge);

}  // namespace nomad_bridge::link
