// The leases of an attachment in a data dir: found and given back.
//
// Errors   kIncomplete naming each lease that could not be given back; kIo; those of the IPAM plugin
//          that gave the addresses.
// Locks    The data dir's lock, for the length of a call.
#pragma once

#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "ipam/store.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// `id` as leases name it.
[[nodiscard]] ipam::LeaseOwner OwnerOf(const AttachmentId& id);

// Gives back the leases of `record`, or asks who gave its addresses to take them back.
void ReleaseAddresses(const state::Record& record);

// Every address leased to `id` in the data dir, whoever wrote it. Opens every lease.
[[nodiscard]] std::vector<Ip> FindLeasesOf(const AttachmentId& id, const std::string& data_dir);

// Gives back every lease of `id` in the data dir, whoever wrote it: for DEL without a record.
// Opens every lease.
void ReleaseAddressesOf(const AttachmentId& id, const std::string& data_dir);

}  // namespace nomad_bridge::attachment
