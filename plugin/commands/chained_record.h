// The record of an interface that plugins earlier in the list have made, with the rules of firewall
// or portmap on it.
//
// Errors   kInvalidConfig if a published port's hostIP has a family that the container lacks; kChanged if
//          the interface is gone; kKernel.
// Locks    The attachment's own lock is held by the caller.
#pragma once

#include <optional>
#include <vector>

#include "plugin/config/config.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::commands {

// The attachment as the plugins before us left it: `earlier`, the record if one is there; its
// addresses and its way on the host by prevResult, if the link is not ours.
[[nodiscard]] state::Record DescribeChained(state::Host& host,
                                            const cni::Request& request,
                                            const config::Config& config,
                                            const netlink::NetnsId& container,
                                            const std::optional<state::Record>& earlier);

// `record` with the parts of `type`, as `rules` has them. portmap without a port adds no part.
[[nodiscard]] state::Record WithRules(state::Record record,
                                      const cni::PluginType& type,
                                      const config::RulesConfig& rules);

// Whether any of `ports` can lead to a container with these addresses.
[[nodiscard]] bool IsAnyReachable(const std::vector<portmap::PortMapping>& ports,
                                  const std::vector<Cidr>& addresses);

}  // namespace nomad_bridge::commands
