// Finds, restores and releases the leases of an attachment in a data directory.
//
// Errors   kIncomplete, which names each lease that could not be released; kIo; the errors of the
//          IPAM plugin that assigned the addresses.
// Locks    Takes the data directory's lock for the length of a call.
#pragma once

#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/finding.h"
#include "base/ip.h"
#include "ipam/store.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Releases the leases of `record`. If another IPAM plugin than host-local assigned its addresses,
// runs DEL of that plugin.
void ReleaseAddresses(const state::Record& record);

// Returns whether the lease file is older than the boot; false if there is no lease.
[[nodiscard]] bool WasWrittenBeforeBoot(const ipam::Store& store, const Ip& address);

// Checks that every lease of `record` exists. Mode kRepair writes the missing ones. If none is
// missing, writes nothing at all, since the disk may be full.
void CheckLeasesOf(const state::Record& record, Findings& findings);
// Writes the leases of the live attachments of `network` into `store`, if their records name
// `data_dir`, the directory of `store`. Reads every record, so call it only for a directory that is
// new or was lost.
void RestoreLeases(state::Host& host,
                   ipam::Store& store,
                   const std::string& network,
                   const std::string& data_dir);

// Returns whether it is known, since the boot, that every lease of `network` in `data_dir` belongs
// to an attachment with a record. A file below /run/nomad-bridge/.leases remembers this.
[[nodiscard]] bool AreLeasesKnown(const std::string& network, const std::string& data_dir);

// Returns the addresses that are leased to `id`, which has no record: /run was lost, in a reboot
// for example, and the leases are on disk. Opens every lease, until AreLeasesKnown().
[[nodiscard]] std::vector<Ip> FindLeasesFromBefore(state::Host& host,
                                                   const ipam::Store& store,
                                                   const AttachmentId& id,
                                                   const std::string& data_dir);

// Removes the directory of the leases of `network` if neither a record nor a lease is left.
void EnsureUnusedDirectoryGone(state::Host& host,
                               const std::string& network,
                               const std::string& data_dir);

// Returns every address leased to `id`, by any plugin. Opens every lease.
[[nodiscard]] std::vector<Ip> FindLeasesOf(const AttachmentId& id, const std::string& data_dir);

// Releases the `leases` that `id` owns.
void ReleaseLeases(const AttachmentId& id,
                   const std::string& data_dir,
                   const std::vector<Ip>& leases);

}  // namespace nomad_bridge::attachment
