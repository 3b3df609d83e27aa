// rp_filter: the kernel drops what comes by another link than the way back to its source.
#pragma once

#include <string>
#include <string_view>

#include "netlink/rtnl/rtnl.h"
#include "plugin/causes/cause.h"

namespace nomad_bridge::causes {

// The link's own setting or that of all, the greater one: 1 is strict, 2 loose.
[[nodiscard]] bool IsReversePathStrict(std::string_view ifname);
[[nodiscard]] Fix LoosenReversePath(std::string_view ifname);

// Whether `answer`, to a query about what comes by `link` from `source`, is that of rp_filter.
[[nodiscard]] bool IsByReversePath(rtnl::Socket& net,
                                   const rtnl::RouteAnswer& answer,
                                   const rtnl::Link& link,
                                   const Ip& source);

// What comes by `link` from `source`, as a person names it, is dropped.
[[nodiscard]] Cause StrictReversePath(const rtnl::Link& link, const std::string& source);

// Whether this machine has dropped anything so since it started.
[[nodiscard]] bool HasReversePathDropped();

}  // namespace nomad_bridge::causes
