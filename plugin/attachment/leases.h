// The leases of an attachment in a data directory: found, restored and released.
//
// Errors   kIncomplete naming each lease that could not be released; kIo; those of the IPAM plugin
//          that assigned the addresses.
// Locks    The data directory's, for the length of a call.
#pragma once

#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "base/mismatch.h"
#include "ipam/store.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Releases the leases of `record`, and runs DEL of the IPAM plugin that assigned its addresses, if
// that was not host-local.
void ReleaseAddresses(const state::Record& record);

// By the time of its file. False if there is no lease.
[[nodiscard]] bool WasWrittenBeforeBoot(const ipam::Store& store, const Ip& address);

// Every lease of `record` is there. Writes nothing where none is lost: the disk may be full.
void CheckLeases(const state::Record& record, Mismatches& mismatches);
// Writes the leases of all live attachments of `network` that have them in `data_dir`, which
// `store` is. Reads every record: for a directory that is new, or was lost.
void RestoreLeases(state::Host& host,
                   ipam::Store& store,
                   const std::string& network,
                   const std::string& data_dir);

// Every address leased to `id`, by whatever plugin. Opens every lease.
[[nodiscard]] std::vector<Ip> FindLeasesOf(const AttachmentId& id, const std::string& data_dir);

// Releases those of `leases` that are leased to `id`.
void ReleaseLeases(const AttachmentId& id,
                   const std::string& data_dir,
                   const std::vector<Ip>& leases);

}  // namespace nomad_bridge::attachment
