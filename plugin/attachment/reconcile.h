// The host's side compared with what the records say, and put right: the only repair there is.
//
// ADD, CHECK, GC and the operators' commands call it, each with its scope. The container's side is
// the container's own: link/container.h compares it, and nothing changes it.
//
// Order    What attachments share behind a gateway, each one's host veth and leases, then the rules
//          in one batch: they name links that are there by then. route_localnet comes after the
//          rules that make it safe. Other programs' firewalls are last: their tools take their
//          time.
// Log      What was repaired is on stderr, in the words of the mismatch, once no lock is held. What
//          an ADD or `up` makes is not.
// Errors   Scope kAll: what failed is in the report, and the others are repaired all the same; kIo
//          or kKernel if not even the records can be listed. Else what the kernel refuses is
//          thrown: the errors of link/bridge.h, rules/commit.h and rules/converge.h.
// Locks    Scope kOne: the attachment's own is held by the caller. kAll: of one with a
//          mismatch by TryLock; it is looked at again then. The leases' are taken where one is
//          lost, the rules' always.
// Costs    kAll: a dump of the links, and one per set of our table; files of each attachment.
//          kRules: the dumps of sets. The others do not depend on the number of attachments, unless
//          a bridge or a table was lost.
#pragma once

#include <set>
#include <vector>

#include "plugin/attachment/reconcile_report.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

struct Scope {
  enum class Extent {
    kNetwork,  // bridge, gateway, rules and other firewalls, before `record` is attached
    kTables,   // what an ADD compares of the rules, and other firewalls if it was anything
    kOne,      // all that `record` needs on the host's side
    kRules,    // the rules of all attachments
    kAll,      // the host's side of all attachments
  };

  Extent extent = Extent::kAll;
  const state::Record* record = nullptr;
  std::set<AttachmentId> valid = {};  // elements of theirs stay without a record, too
  // kAll: those of the node, listed just before; null: they are listed.
  const std::vector<rtnl::Link>* links = nullptr;
};

// NOLINTNEXTLINE(modernize-use-nodiscard): what was repaired is in the log
ReconcileReport Reconcile(
    state::Host& host,
    const Scope& scope,
    Mode mode,
    const Progress& progress = [](std::size_t, std::size_t) {});

}  // namespace nomad_bridge::attachment
