// Finds what is wrong inside a container's network namespace, and what would fix it from the node.
// Changes nothing.
//
// Errors   kKernel
#pragma once

#include "base/finding.h"
#include "plugin/causes/connection.h"
#include "plugin/link/container.h"

namespace nomad_bridge::causes {

// An attachment's container, opened. `record` must outlive it.
struct Inside : link::Container {
  const state::Record& record;
  std::optional<rtnl::Link> link;  // the interface that ADD made, even if it was renamed
};
// Returns nullopt if the namespace is gone, or cannot be seen from here.
[[nodiscard]] std::optional<Inside> OpenInside(const state::Record& record);
// Returns that it cannot be seen from here. This need not end anything.
[[nodiscard]] Finding UnseenNamespace(const state::Record& record);

// Returns the gateway of the container's default route if its config names none: the node, or a
// LAN's router.
[[nodiscard]] std::optional<Ip> FindGateway(const state::Record& record, Family family);
// Returns a fix that runs `command` inside, so that the container sends through `gateway` of
// FindGateway(). On a LAN the fix is only advice: the config may name another router.
[[nodiscard]] Fix FixByGateway(const state::Record& record,
                               const Ip& gateway,
                               const std::string& command);

// Returns commands that add a routing table for packets from `address`. They then leave through
// `own`, whatever the other routes are.
[[nodiscard]] Fix FixByOwnTable(const rtnl::Link& own,
                                const state::Record& record,
                                const Ip& address);

// Checks the interface, its addresses, and the routes of answers.
[[nodiscard]] FindingList FindInContainer(Inside& inside, const std::optional<Ip>& client);
// Finds an end of the pair that takes no packets as large as the other end sends.
[[nodiscard]] FindingList FindSmallerEnd(state::Host& host, const Inside& inside);
// Notes that a sandbox or a virtual machine takes the frames of the interface
// (link/frame_reader.h).
[[nodiscard]] std::optional<std::string> FindFrameReaderNote(Inside& inside);

// Notes that the network gives no default route for a published family, so some clients get no
// answer.
[[nodiscard]] std::vector<std::string> FindRouteNotes(Inside& inside);

// Finds answers from the container's address in this network that may leave by its interface in
// another network, which drops foreign addresses. If the container has two default routes, the
// kernel uses either of them, so a single probe does not show this.
[[nodiscard]] FindingList FindSecondNetwork(state::Host& host, Inside& inside);

}  // namespace nomad_bridge::causes
