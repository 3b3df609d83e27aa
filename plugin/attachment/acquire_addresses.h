// The addresses of an attachment: leases chosen, recorded as an intent, then taken.
#pragma once

#include <optional>
#include <vector>

#include "plugin/cni/result.h"
#include "plugin/config/config.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Answers what an IPAM plugin does: addresses with their gateways, routes, DNS; no interfaces.
// Fills in the addresses, gateways and ports of `record`, writes it, and reserves the leases;
// `earlier` is what a former ADD of the same attachment left: its addresses are taken again where
// the network still offers them, and given back where not. A requested address of the dead is
// theirs no more, and a full pool first gives back all that the dead hold. Throws kPoolExhausted,
// or kConflict if a requested address is taken, naming who has it. On an error nothing is left.
// With another IPAM plugin than host-local that one is asked, and with none there are no addresses.
[[nodiscard]] cni::Result AcquireAddresses(state::Host& host,
                                           const cni::Request& request,
                                           const config::Config& config,
                                           state::Record& record,
                                           const std::optional<state::Record>& earlier);

}  // namespace nomad_bridge::attachment
