// Acquires the addresses of an attachment. Either this code chooses them, writes them into the
// record, and then leases them; or another IPAM plugin assigns them.
//
// Errors   kPoolExhausted if no address is free even after stale attachments have been removed;
//          kConflict if a requested address is taken: the error names its owner; kIo; the errors of
//          the other IPAM plugin (cni/delegate.h). After an error neither a lease nor a record of
//          this attempt is left.
// Locks    The caller holds the attachment's lock. These functions hold the leases' lock while they
//          choose and write leases.
#pragma once

#include <optional>

#include "base/undo.h"
#include "plugin/cni/result.h"
#include "plugin/config/config.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

struct Acquired {
  state::Record record;  // as written: the intent with addresses, leases, gateways and ports
  cni::Result result;    // what IPAM answered: addresses with gateways, routes, DNS; no interfaces
};

// Completes and writes `intent`, and reserves its leases. `earlier` is the record of an earlier ADD
// of this attachment. Chooses the addresses of that record again if the network still offers them,
// and releases its other addresses. If the IPAM plugin is not host-local, chooses no address yet:
// the record names the plugin, so that DEL can run it, and AskDelegatedIpam() runs its ADD once the
// link exists.
[[nodiscard]] Acquired AcquireAddresses(state::Host& host,
                                        const cni::Request& request,
                                        const config::Config& config,
                                        state::Record intent,
                                        const std::optional<state::Record>& earlier);

// Runs ADD of the IPAM plugin that `record` names, then completes and writes the record. The
// container's link must be up, because a plugin such as dhcp sends over it.
[[nodiscard]] Acquired AskDelegatedIpam(state::Host& host,
                                        const cni::Request& request,
                                        const config::Config& config,
                                        const state::Record& record);

// Returns `intent` with the addresses of `result` and what follows from them: default routes,
// gateways and ports. Adds no leases.
[[nodiscard]] Acquired WithAddresses(state::Record intent,
                                     cni::Result result,
                                     const config::Config& config);

// Adds two steps to `undo`: release the addresses of `record`, then remove the record.
void UndoAcquired(state::Host& host, const state::Record& record, Undo& undo);

}  // namespace nomad_bridge::attachment
