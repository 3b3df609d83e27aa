// Why a link carries nothing: it is down, it has no carrier, or, as a port of a bridge, it does not
// forward.
//
// Source   bridge(8), linux/if_bridge.h: BR_STATE_...
#pragma once

#include <string>

#include "base/fix.h"
#include "netlink/rtnl/rtnl.h"

namespace nomad_bridge::link {

struct IdleLink {
  std::string text;  // "does not forward", behind the name of the link
  Fix fix;
  bool is_passing = false;  // it passes by itself
};

// REQUIRES: `link` is not operational.
[[nodiscard]] IdleLink DescribeIdle(const rtnl::Link& link);

// REQUIRES: `port`, of `bridge`, is operational, and does not forward.
[[nodiscard]] IdleLink DescribeHeldPort(const rtnl::Link& port, const rtnl::Link& bridge);

}  // namespace nomad_bridge::link
