// Taking back what stale attachments hold: because an ADD needs it, an address of a full pool or a
// host port, or because GC or the operator says so. (Nomad sends no DEL for an allocation that
// ended while its agent was away.)
//
// Stale    An attachment whose namespace is gone, or that a killed command left (liveness.h); for a
//          GC with a list of valid attachments, whatever is not in it. One that a command works on
//          counts as alive.
// Leases   A file that only reserves its address (ipam/store.h) stays. A lease without a record
//          whose address no container has (link/liveness.h) is taken back
//          if it is from before the last boot; for the operator also if its owner has neither a
//          link nor, as an attachment of the reference plugins, rules.
// Records  A void record (state/record_store.h) of an attachment without a link is removed.
// Errors   None: what cannot be removed is in the report.
// Locks    A stale attachment's, by TryLock; for one that is not valid its command's end is
//          awaited.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/attachment_id.h"
#include "plugin/attachment/reconcile_report.h"
#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

// What is looked at, and what of it stays.
struct Collection {
  std::string network;   // empty: all, for the operator
  std::string data_dir;  // of the network's leases; empty: where records say, and the usual one
  std::optional<std::set<AttachmentId>> valid = {};  // nullopt: whatever is not stale
  std::string bridge = {};  // whose ports of ours that are not valid go, too
  bool leases = true;
  // Leases alone, beside these records, each with its data directory: they are not read again.
  std::optional<std::map<AttachmentId, std::string>> recorded = {};
};

// Attachments and leases: elements, links, leases and records of what is stale.
// NOLINTNEXTLINE(modernize-use-nodiscard): what was removed is in the log
ReconcileReport Collect(
    state::Host& host,
    const Collection& collection,
    Mode mode,
    const Progress& progress = [](std::size_t, std::size_t) {});

// Whether `id` has a void record, and no link.
[[nodiscard]] bool IsRecordAlone(state::Host& host, const AttachmentId& id);

// Removes all of `id` if it is stale. False if it is alive, unknown, or could not be removed.
[[nodiscard]] bool CollectIfStale(state::Host& host, const AttachmentId& id);

}  // namespace nomad_bridge::attachment
