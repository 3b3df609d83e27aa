// Resolves conflicts: our change wants an element that belongs to another attachment.
//
// Errors   kConflict if an address or a host port belongs to a live attachment, naming it by its
//          labels.
// Locks    The caller holds the rules' lock. The owner's lock is only tried.
#pragma once

#include <optional>
#include <vector>

#include "base/file_lock.h"
#include "firewall/ruleset.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// A stale attachment, or one with parts that a killed command left, whose elements conflict with
// ours. It is locked against any other command.
struct StaleOwner {
  FileLock lock;
  state::Record record;
  bool is_alive = false;  // some part of the attachment is live

  // Returns the parts that have to be removed: all, or those that are not live.
  [[nodiscard]] state::Record StaleParts() const;
};

struct Resolution {
  bool is_left_to_sibling = false;
  std::optional<StaleOwner> stale_owner;  // only if it has a record
};

// Changes `change`, for `record`, so that it no longer conflicts. A port that another attachment of
// the same container has stays there. Elements of a stale owner are taken over in the same batch,
// and all its other elements removed.
[[nodiscard]] Resolution ResolveConflict(state::Host& host,
                                         const state::Record& record,
                                         const firewall::Conflict& conflict,
                                         firewall::Change& change);

// Finds another attachment's element that publishes a port on one address of the node while
// `change` publishes it on all addresses, or the other way round. The kernel keeps the two in
// different maps, so one would silently take over a part of the other's port. `published_on`: the
// host addresses to look up (Checkpoint::published_on); nullopt among them stands for all
// addresses.
[[nodiscard]] std::optional<firewall::Conflict> FindOverlap(
    state::Host& host,
    const firewall::Change& change,
    const std::vector<std::optional<Ip>>& published_on);

// Finds the live attachment that keeps `present`, a published port in the kernel, although
// `record`, of the same container, wants it, too. A runtime publishes a container's ports in every
// network the container is in (podman does). The port stays with the attachment that has it until
// that attachment is removed.
[[nodiscard]] std::optional<state::Record> FindSibling(state::Host& host,
                                                       const state::Record& record,
                                                       const nft::Element& present);

// Returns whether `id` is another attachment of the container of `record`: in another network, or
// under another interface name.
[[nodiscard]] bool IsSameContainer(const AttachmentId& id, const state::Record& record);

}  // namespace nomad_bridge::rules
