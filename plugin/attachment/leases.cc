#include "plugin/attachment/leases.h"

#include <optional>

#include "base/text.h"
#include "ipam/store.h"
#include "plugin/cni/error_list.h"

namespace nomad_bridge::attachment {

void ReleaseAddresses(const state::Record& record) {
  cni::ErrorList failures;
  std::optional<ipam::Store> store =
      record.ipam.leases.empty()
          ? std::nullopt
          : ipam::Store::OpenIfExists(record.ipam.data_dir, record.id.network);
  if (store) {
    for (const Cidr& cidr : record.ipam.leases) {
      failures.Try(Cat("the lease of ", cidr.address),
                   [&] { store->Release(cidr.address, ipam::OwnerOf(record.id)); });
    }
  }
  failures.ThrowIfAny("not every lease could be released");
  if (record.ipam.delegated) {
    cni::InvokeIpam(*record.ipam.delegated, cni::Verb::kDel, record.id, record.netns_path);
  }
}

std::vector<Ip> FindLeasesOf(const AttachmentId& id, const std::string& data_dir) {
  std::vector<Ip> addresses;
  if (const std::optional<ipam::Store> store = ipam::Store::OpenIfExists(data_dir, id.network)) {
    for (const ipam::Lease& lease : store->Leases()) {
      if (lease.owner.Matches(ipam::OwnerOf(id))) {
        addresses.push_back(lease.address);
      }
    }
  }
  return addresses;
}

void ReleaseAddressesOf(const AttachmentId& id, const std::string& data_dir) {
  std::optional<ipam::Store> store = ipam::Store::OpenIfExists(data_dir, id.network);
  if (!store) {
    return;
  }
  for (const ipam::Lease& lease : store->Leases()) {
    if (lease.owner.Matches(ipam::OwnerOf(id))) {
      store->Release(lease.address, lease.owner);
    }
  }
}

}  // namespace nomad_bridge::attachment
