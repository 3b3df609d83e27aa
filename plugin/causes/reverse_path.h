// rp_filter: the kernel drops packets that come through another link than the route back to their
// source.
#pragma once

#include <string>
#include <string_view>

#include "netlink/rtnl/rtnl.h"
#include "plugin/causes/cause.h"

namespace nomad_bridge::causes {

// Returns whether rp_filter is strict for the link. The greater of the link's own setting and the
// setting for all links counts: 1 is strict, 2 is loose.
[[nodiscard]] bool IsReversePathStrict(std::string_view ifname);
[[nodiscard]] Fix LoosenReversePath(std::string_view ifname);

// Returns whether rp_filter caused `answer`, to a query about packets that come by `link` from
// `source`.
[[nodiscard]] bool IsByReversePath(rtnl::Socket& net,
                                   const rtnl::RouteAnswer& answer,
                                   const rtnl::Link& link,
                                   const Ip& source);

// Returns the cause: packets through `link` from `source` are dropped. `source` is a text for
// people.
[[nodiscard]] Cause StrictReversePath(const rtnl::Link& link, const std::string& source);

// Returns whether this machine has dropped such a packet since it started.
[[nodiscard]] bool HasReversePathDropped();

}  // namespace nomad_bridge::causes
