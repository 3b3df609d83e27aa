// Removes what stale attachments hold. An ADD calls this if it needs an address from a full pool,
// or a host port; GC and the operator's gc call it, too. (Nomad sends no DEL for an allocation that
// ended while its agent was away.)
//
// Stale    An attachment is stale if its namespace is gone, or if a killed command left it
//          (liveness.h). For a GC with a list of valid attachments every other attachment is stale.
//          An attachment that a command works on counts as alive.
// Leases   A lease file by which an operator reserves an address (ipam/store.h) stays. With a list
//          of valid attachments, every other lease without a record is released. Without a list, it
//          is released if it predates the boot and no container has the address
//          (link/liveness.h). The operator's gc also releases a lease of this boot, if its owner
//          has neither a link of ours nor rules of the reference plugins.
// Records  A void record (state/record_store.h) of an attachment without a link is removed.
// Errors   None: the report names what cannot be removed.
// Locks    Only tries the lock of a stale attachment. With a list of valid attachments, waits for
//          the locks of all others.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/attachment_id.h"
#include "plugin/attachment/reconcile_report.h"
#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

// Which attachments Collect() looks at, and which of them it spares.
struct Collection {
  std::string network;   // empty: all networks, for the operator
  std::string data_dir;  // of the leases; empty: the directories that records name, and the default
  std::optional<std::set<AttachmentId>> valid = {};  // to spare; nullopt: all that are not stale
  // On this bridge, host veths of ours are removed if they have neither a record nor a valid
  // attachment.
  std::string bridge = {};
  bool leases = true;
  // If set, also removes elements of our tables that nothing explains, and repairs the others.
  bool rules = false;
  // If set, Collect() looks at leases only. Has every attachment with a record, and the data
  // directory that the record names, so that Collect() need not read the records again.
  std::optional<std::map<AttachmentId, std::string>> recorded = {};
};

// Removes elements, links, leases and records of stale attachments; mode kLook only reports them.
// NOLINTNEXTLINE(modernize-use-nodiscard): what was removed is in the log
ReconcileReport Collect(
    state::Host& host,
    const Collection& collection,
    Mode mode,
    const Progress& progress = [](std::size_t, std::size_t) {});

// Returns whether `id` has a void record and no link.
[[nodiscard]] bool HasVoidRecordAndNoLink(state::Host& host, const AttachmentId& id);

// Removes everything that `id` has if it is stale. Returns false if it is alive or unknown, or if
// something could not be removed.
[[nodiscard]] bool CollectIfStale(state::Host& host, const AttachmentId& id);

}  // namespace nomad_bridge::attachment
