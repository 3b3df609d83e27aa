// Where a network has had leases since the boot, and which it had before.
//
// Shape    /run/nomad-bridge/.leases-<hash of network>-<hash of directory>, written when the first
//          address since the boot is given out there, and never changed:
//            of <network>
//            in <directory>                       this one, then others that records name then
//            <address> <container> <ifname>       a former lease: one that no record explains then,
//                                                 because it is from before the boot, or the
//                                                 records were lost
//          A line may be outdated; the lease itself tells.
// Errors   kIo
// Locks    The directory's, held by the caller as a Store, while the file is made.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ipam/store.h"
#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

struct LeaseHistory {
  std::vector<ipam::Lease> former;  // in the directory itself
  std::set<std::string> other_data_dirs;
};

// Of `network`, as seen from `data_dir`. Nothing is former there before an address was given out.
[[nodiscard]] LeaseHistory FindLeaseHistory(const std::string& network,
                                            const std::string& data_dir);

// The same, after its file was made if it is absent: which opens every lease, and every record of
// the network. `store` is that of `network` in `data_dir`.
[[nodiscard]] LeaseHistory EnsureLeaseHistory(state::Host& host,
                                              const ipam::Store& store,
                                              const std::string& network,
                                              const std::string& data_dir);

// Removes each list of a network that has neither a record nor a lease in its directory.
void ForgetLeaseHistories(state::Host& host);

}  // namespace nomad_bridge::attachment
