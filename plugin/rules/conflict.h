// Resolves conflicts: our change wants an element that belongs to another attachment.
//
// Errors   kConflict if an address or a host port belongs to a live attachment, naming it by its
//          labels.
// Locks    The caller holds the rules' lock. The owner's lock is only tried.
#pragma once

#include <optional>
#include <vector>

#include "base/file_lock.h"
#include "firewall/change.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// A stale attachment, or one with parts that a killed command left, whose elements conflict with
// ours. It is locked against any other command.
struct StaleOwner {
  FileLock lock;
  state::Record record;
  cni::Parts parts;  // those that have to be removed: all, or those that are not live
};

// Edits `change`, the change for `record`, so that `conflict` is resolved. If a sibling has the
// port, the port stays with the sibling. If the owner is stale, the batch takes over its
// conflicting elements and removes all its others; the owner is returned if it has a record.
[[nodiscard]] std::optional<StaleOwner> ResolveConflict(state::Host& host,
                                                        const state::Record& record,
                                                        const firewall::Conflict& conflict,
                                                        firewall::Change& change);

// Finds an overlap: another attachment publishes a port on one address of the node, and `change`
// publishes the same port on all addresses, or the other way round. The two elements are in
// different maps, so the kernel sees no conflict, and one attachment would silently get a part of
// the other's port. For a port on all addresses, dumps the ports that are published on one.
[[nodiscard]] std::optional<firewall::Conflict> FindOverlap(state::Host& host,
                                                            const firewall::Change& change);

// Finds the sibling of `record` that owns `present`, a published port in the kernel. A sibling is
// another live attachment of the same container. Some runtimes (podman) publish a container's ports
// in each of its networks, so siblings want the same port. The first one keeps it until it is
// removed.
[[nodiscard]] std::optional<state::Record> FindSibling(state::Host& host,
                                                       const state::Record& record,
                                                       const nft::Element& present);

}  // namespace nomad_bridge::rules
