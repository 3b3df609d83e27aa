// Makes the record of an attachment from its config, prevResult and the kernel, in three cases:
// before the interface of the attachment is made; for the rules of firewall or portmap, when
// earlier plugins have made the interface; and for an attachment whose record was lost.
//
// Errors   kChanged if the interface is gone; kKernel, kIo; from RebuildInterface() kInvalidConfig
//          if a published port's hostIP has a family that the container lacks.
#pragma once

#include <optional>
#include <vector>

#include "base/finding.h"
#include "plugin/commands/session.h"

namespace nomad_bridge::commands {

// Returns what is known of the attachment before it has an address. `config` is the session's
// config, or a changed copy.
[[nodiscard]] state::Record IntentOnNode(Session& session, const config::Config& config);

// Returns the record of an attachment on which earlier plugins have run. `earlier` is the record,
// if there is one. If the link is not ours, its addresses and its host side come from prevResult.
// Adds the parts of the session's type; portmap without a port adds none.
[[nodiscard]] state::Record RecordFromPrevResult(Session& session,
                                                 const std::optional<state::Record>& earlier);

// Returns whether any of `ports` can lead to a container with these addresses.
[[nodiscard]] bool IsAnyReachable(const std::vector<portmap::PortMapping>& ports,
                                  const std::vector<Cidr>& addresses);

// Rebuilds a record for a CHECK that finds none. If the host has the attachment's link, with its
// name and alias, returns what ADD recorded, as far as the config and prevResult show it.
[[nodiscard]] std::optional<state::Record> RebuildInterface(Session& session, Findings& findings);

// Rebuilds a record of the rules of firewall or portmap, if the kernel has one of their elements.
// Adds them to `found`.
[[nodiscard]] std::optional<state::Record> RebuildRules(Session& session,
                                                        const std::optional<state::Record>& found,
                                                        Findings& findings);

}  // namespace nomad_bridge::commands
