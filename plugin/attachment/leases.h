// The leases of an attachment in a data directory: found and released.
//
// Errors   kIncomplete naming each lease that could not be released; kIo; those of the IPAM plugin
//          that assigned the addresses.
// Locks    The data directory's, for the length of a call.
#pragma once

#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Releases the leases of `record`, and runs DEL of the IPAM plugin that assigned its addresses, if
// that was not host-local.
void ReleaseAddresses(const state::Record& record);

// Every address leased to `id`, by whatever plugin. Opens every lease.
[[nodiscard]] std::vector<Ip> FindLeasesOf(const AttachmentId& id, const std::string& data_dir);

// Releases those: for a DEL without a record. Opens every lease.
void ReleaseAddressesOf(const AttachmentId& id, const std::string& data_dir);

}  // namespace nomad_bridge::attachment
