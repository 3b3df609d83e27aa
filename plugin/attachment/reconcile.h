// Compares the host's side with the records and repairs it. No other code repairs.
//
// ADD, CHECK, GC and the operators' commands call it, each with its scope. The container's side
// belongs to the container: link/container.h compares it, and nothing changes it.
//
// Order    First come the bridge and gateway that attachments share; then the host veth and the
//          leases of each attachment; then the rules in one batch, since they name the links.
//          route_localnet comes after the rules that make it safe. Other programs' firewalls come
//          last, because their tools take time.
// Log      Names each repair on stderr, in the words of the mismatch, once no lock is held. Does
//          not name what an ADD or `up` creates.
// Errors   Scope kAll: the report names what failed, and everything else is repaired; throws kIo or
//          kKernel if the records cannot even be listed. Other scopes throw if the kernel refuses a
//          change: the errors of link/bridge.h, rules/commit.h and rules/converge.h.
// Locks    Scope kOne: the caller holds the attachment's lock. Scope kAll: tries the lock of an
//          attachment with a mismatch, and then looks at the attachment again. Takes the leases'
//          lock if a lease is lost, and always the rules' lock.
// Costs    Scope kAll dumps the links and each set of our table, and reads the files of each
//          attachment. Scope kRules dumps the sets. The cost of other scopes does not depend on the
//          number of attachments, unless a bridge or a table was lost.
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
    kTables,   // the rules, as in an ADD; also other firewalls if somebody has changed a rule
    kOne,      // all that `record` needs on the host's side
    kRules,    // the rules of all attachments
    kAll,      // the host's side of all attachments
  };

  Extent extent = Extent::kAll;
  const state::Record* record = nullptr;
  std::set<AttachmentId> valid = {};  // their elements stay, even without a record
  // Scope kAll: the links of the node, listed just before; null: Reconcile() lists them.
  const std::vector<rtnl::Link>* links = nullptr;
};

// NOLINTNEXTLINE(modernize-use-nodiscard): what was repaired is in the log
ReconcileReport Reconcile(
    state::Host& host,
    const Scope& scope,
    Mode mode,
    const Progress& progress = [](std::size_t, std::size_t) {});

}  // namespace nomad_bridge::attachment
