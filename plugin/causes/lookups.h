// How links find whom they send to, and are found: by ARP, and by ICMPv6's solicitations and
// advertisements. Nothing is needed where somebody has put down the address for good.
//
// Errors   kKernel
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugin/causes/journey.h"
#include "plugin/causes/stations.h"

namespace nomad_bridge::causes {

// ---- the hooks that these packets pass. What differs from one to the next is not described.

// Between the uplink and the next hop. REQUIRES: uplink
[[nodiscard]] std::vector<Station> LookupsOnUplink(NodeFacts& facts, const Journey& journey);

// Between `gateway` and the container, by `port` where it is a bridge.
[[nodiscard]] std::vector<Station> LookupsOnGateway(NodeFacts& facts,
                                                    const Journey& journey,
                                                    const rtnl::Link& gateway,
                                                    const std::string& port);

// The same, in the container.
[[nodiscard]] std::vector<Station> LookupsInside(rtnl::Socket& container,
                                                 const Journey& journey,
                                                 const rtnl::Link& own);

// `link`, of a kind that has to find `next`, does not: somebody has set its flag NOARP. The fix's
// command begins with `prefix`.
[[nodiscard]] Causes FindArpOff(rtnl::Socket& net,
                                const rtnl::Link& link,
                                const std::optional<Ip>& next,
                                const std::string& prefix = "");

// Nobody who asks by ARP who has an address on `link` is told, as its own setting arp_ignore says,
// or that of all links.
[[nodiscard]] Causes FindArpIgnored(const rtnl::Link& link,
                                    long of_all,
                                    const std::string& prefix = "");

}  // namespace nomad_bridge::causes
