// The record of an attachment that a CHECK finds without it: from the config and prevResult, if the
// kernel shows that it was added.
//
// Errors  Those of portmap::Resolve(); kKernel, kIo.
// Locks   The attachment's own lock is held by the caller.
#pragma once

#include <optional>

#include "plugin/cni/plugin_type.h"
#include "plugin/config/config.h"
#include "plugin/link/container.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::commands {

// If the host has the link of the attachment, by its name and alias: what its ADD recorded, as far as
// the config and prevResult tell. Written, unless CHECK must not repair.
[[nodiscard]] std::optional<state::Record> RebuildInterface(state::Host& host,
                                                            const cni::Request& request,
                                                            const cni::PluginType& type,
                                                            const config::Config& config,
                                                            const netlink::NetnsId& container);

// The same of the rules of firewall or portmap, if the kernel has some of them, added to `found`.
[[nodiscard]] std::optional<state::Record> RebuildRules(state::Host& host,
                                                        const cni::Request& request,
                                                        const cni::PluginType& type,
                                                        const config::Config& config,
                                                        const std::optional<state::Record>& found);

}  // namespace nomad_bridge::commands
