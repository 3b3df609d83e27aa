// The addresses of an attachment: chosen, recorded as an intent, then leased; or given by another
// IPAM plugin.
//
// Errors   kPoolExhausted, also after stale attachments have been reclaimed; kConflict if a
//          requested address is taken, naming its owner; kIo; those of the other IPAM plugin
//          (cni/delegate.h). On an error neither a lease nor a record of this attempt is left.
// Locks    The attachment's own lock is held by the caller; the leases' is taken while they are
//          chosen and written.
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
  cni::Result result;    // an IPAM plugin's: addresses with gateways, routes, DNS; no interfaces
};

// Completes and writes `intent`, and reserves its leases. `earlier` is the record of an earlier ADD
// of this attachment: its addresses are taken again where the network still offers them, and
// released where not. No addresses with another IPAM plugin than host-local, which is recorded, so
// that DEL knows whom to ask to release what, and asked when the link is there.
[[nodiscard]] Acquired AcquireAddresses(state::Host& host,
                                        const cni::Request& request,
                                        const config::Config& config,
                                        state::Record intent,
                                        const std::optional<state::Record>& earlier);

// Runs ADD of the IPAM plugin that `record` names, and completes and writes that. It may ask on the
// container's link, as DHCP does, which is to be up.
[[nodiscard]] Acquired AskDelegatedIpam(state::Host& host,
                                        const cni::Request& request,
                                        const config::Config& config,
                                        const state::Record& record);

// `intent` with the addresses of `result`, and what follows from them: gateways and ports. No
// leases.
[[nodiscard]] Acquired WithAddresses(state::Record intent,
                                     cni::Result result,
                                     const config::Config& config);

// Gives `undo` what releases the addresses of `record` and removes it.
void UndoAcquired(state::Host& host, const state::Record& record, Undo& undo);

}  // namespace nomad_bridge::attachment
