// An element that our change wants and somebody else has.
//
// Errors   kConflict if an address or a host port belongs to a live attachment, naming it by its
//          labels.
// Locks    The rules' lock is held by the caller; the owner's is only tried.
#pragma once

#include <optional>
#include <vector>

#include "base/file_lock.h"
#include "firewall/ruleset.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// An attachment whose elements are in our way, and that is stale, or partly left by a killed
// command. It is locked against any other command.
struct StaleOwner {
  FileLock lock;
  state::Record record;
  bool is_alive = false;  // the attachment itself: some part of it is live

  // The parts of it that have to go: all, or those that are not live.
  [[nodiscard]] state::Record StaleParts() const;
};

struct Resolution {
  bool is_left_to_sibling = false;
  std::optional<StaleOwner> stale_owner;  // if it has a record
};

// Changes `change`, for `record`, so that it no longer conflicts: a port that another attachment of
// the same container has stays there; what a stale owner has is taken over in the same batch, and
// all else of it removed.
[[nodiscard]] Resolution ResolveConflict(state::Host& host,
                                         const state::Record& record,
                                         const firewall::Conflict& conflict,
                                         firewall::Change& change);

// Somebody else's element that publishes on one address of the node a port that `change` publishes
// on all, or the other way round. The kernel has them in two maps, so one would take over a part of
// the other's port silently. `published_on`: Checkpoint::published_on, the host addresses that are
// looked up; nullopt among them: all addresses.
[[nodiscard]] std::optional<firewall::Conflict> FindOverlap(
    state::Host& host,
    const firewall::Change& change,
    const std::vector<std::optional<Ip>>& published_on);

// The live attachment that keeps `present`, a published port in the kernel, although `record`, of
// the same container, wants it, too. A runtime publishes a container's ports in every network the
// container is in (podman does): the port belongs to the attachment that has it, until it is
// transferred when that one goes.
[[nodiscard]] std::optional<state::Record> FindSibling(state::Host& host,
                                                       const state::Record& record,
                                                       const nft::Element& present);

// Whether `id` is another attachment of the container of `record`: in another network, or under
// another interface name.
[[nodiscard]] bool IsSameContainer(const AttachmentId& id, const state::Record& record);

}  // namespace nomad_bridge::rules
