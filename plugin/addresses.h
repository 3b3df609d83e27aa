// The addresses of an attachment: leases chosen, recorded as an intent, then taken.
#pragma once

#include <optional>
#include <vector>

#include "plugin/config.h"
#include "plugin/host.h"
#include "plugin/record.h"
#include "plugin/result.h"

namespace nomad_bridge {

// Answers what an IPAM plugin does: addresses with their gateways, routes, DNS; no interfaces.
// Fills in the addresses, gateways and ports of `record`, writes it, and reserves the leases;
// `earlier` is what a former ADD of the same attachment left: its addresses are taken again where
// the network still offers them, and given back where not. A requested address of the dead is
// theirs no more, and a full pool first gives back all that the dead hold. Throws kPoolExhausted,
// or kConflict if a requested address is taken, naming who has it. On an error nothing is left.
// With another IPAM plugin than host-local that one is asked, and with none there are no addresses.
[[nodiscard]] Result AcquireAddresses(Host& host,
                                      const Request& request,
                                      const Config& config,
                                      Record& record,
                                      const std::optional<Record>& earlier);

// Gives back the leases of `record`, or asks who gave its addresses to take them back.
void ReleaseAddresses(const Record& record);

// Every address leased to `who` in the data dir, whoever wrote it. Opens every lease.
[[nodiscard]] std::vector<Ip> FindLeasesOf(const Attachment& who, const std::string& data_dir);

// Gives back every lease of `who` in the data dir, whoever wrote it: for DEL without a record.
// Opens every lease.
void ReleaseAddressesOf(const Attachment& who, const std::string& data_dir);

}  // namespace nomad_bridge
