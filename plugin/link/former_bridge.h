// A bridge that was a network's before another one was made in its place: somebody has renamed it,
// and the first release then made a new one. Both have the gateway's addresses, and what the node
// sends to containers leaves by one of them.
#pragma once

#include <optional>

#include "base/mismatch.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

// nullopt if `link` is not the former one of the bridge `gateway`, or has none of its addresses.
[[nodiscard]] std::optional<Mismatch> FindFormerBridge(state::Host& host,
                                                       const rtnl::Link& link,
                                                       const rtnl::Link& gateway);

}  // namespace nomad_bridge::link
