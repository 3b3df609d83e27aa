// Routes, rules of policy routing and queues that keep packets from where they are to go.
//
// Errors   kKernel
#pragma once

#include "plugin/causes/journey.h"

namespace nomad_bridge::causes {

// Of packets for which `net` has no way, as it answered `query`; `what` says so: "no packet gets to
// 172.26.64.2". At least one. `prefix`: of their commands.
[[nodiscard]] Causes FindBlockers(rtnl::Socket& net,
                                  const rtnl::RouteQuery& query,
                                  const std::string& what,
                                  const std::string& prefix = "");

// The same, as far as what keeps them is known.
[[nodiscard]] Causes FindKnownBlockers(rtnl::Socket& net,
                                       const rtnl::RouteQuery& query,
                                       const std::string& what,
                                       const std::string& prefix = "");

// Nothing leaves by `link`: its queue loses all.
[[nodiscard]] Causes FindBlackhole(rtnl::Socket& net,
                                   const rtnl::Link& link,
                                   const std::string& prefix = "");

// What of tc on `link` may drop packets: filters, and queues that lose some by chance or by size.
[[nodiscard]] std::vector<std::string> TrafficControlOf(rtnl::Socket& net,
                                                        const rtnl::Link& link,
                                                        const std::string& prefix = "");

[[nodiscard]] bool HasDefaultRoute(const std::vector<Route>& routes, Family family);

constexpr std::uint32_t kMainTable = 254;
constexpr std::uint32_t kLocalTable = 255;

// " table 77"; nothing for the main one.
[[nodiscard]] std::string TableWords(std::uint32_t table);

}  // namespace nomad_bridge::causes
