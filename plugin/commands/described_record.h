// The record of an attachment as the config, prevResult and the kernel tell it: of an interface
// that ADD is about to make; of one that plugins earlier in the list have made, with the rules of
// firewall or portmap on it; and of one whose record is lost.
//
// Errors   kInvalidConfig if a published port's hostIP has a family that the container lacks;
//          kChanged if the interface is gone; kKernel, kIo.
#pragma once

#include <optional>
#include <vector>

#include "base/mismatch.h"
#include "plugin/commands/session.h"

namespace nomad_bridge::commands {

// What an ADD of an interface records: all that is known before it has an address.
[[nodiscard]] state::Record IntentOf(Session& session);

// The attachment as the plugins before us left it: `earlier`, the record if one is there; its
// addresses and its way on the host by prevResult, if the link is not ours. With the parts of the
// session's type; portmap without a port adds none.
[[nodiscard]] state::Record DescribeChained(Session& session,
                                            const std::optional<state::Record>& earlier);

// Whether any of `ports` can lead to a container with these addresses.
[[nodiscard]] bool IsAnyReachable(const std::vector<portmap::PortMapping>& ports,
                                  const std::vector<Cidr>& addresses);

// For a CHECK that finds no record: if the host has the link of the attachment, by its name and
// alias, what its ADD recorded, as far as the config and prevResult tell.
[[nodiscard]] std::optional<state::Record> RebuildInterface(Session& session,
                                                            Mismatches& mismatches);

// The same of the rules of firewall or portmap, if the kernel has some of them, added to `found`.
[[nodiscard]] std::optional<state::Record> RebuildRules(Session& session,
                                                        const std::optional<state::Record>& found,
                                                        Mismatches& mismatches);

}  // namespace nomad_bridge::commands
