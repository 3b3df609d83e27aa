#include "plugin/attachment/leases.h"

#include <ctime>

#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/cni/error_list.h"
#include "plugin/link/liveness.h"

namespace nomad_bridge::attachment {
namespace {

// Returns seconds since the epoch.
std::int64_t BootTime() {
  timespec now{};
  timespec uptime{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  ::clock_gettime(CLOCK_BOOTTIME, &uptime);
  return now.tv_sec - uptime.tv_sec;
}

std::string KnownDirectory() {
  return Cat(state::kStateDirectory, "/.leases");
}

std::string KnownPath(const std::string& network) {
  return Cat(KnownDirectory(), '/', network);
}

// Returns the leases of `record` that are missing or have another owner. A lease file appears whole
// or not at all, so reading it takes no lock.
std::vector<Ip> LostLeases(const state::Record& record) {
  std::vector<Ip> lost = AddressesOnly(record.ipam.leases);
  std::erase_if(lost, [&](const Ip& address) {
    const std::optional<ipam::LeaseOwner> owner =
        ipam::FindOwnerUnlocked(record.ipam.data_dir, record.id.network, address);
    return owner && owner->Matches(ipam::OwnerOf(record.id));
  });
  return lost;
}

}  // namespace

bool WasWrittenBeforeBoot(const ipam::Store& store, const Ip& address) {
  const std::int64_t boot = BootTime();
  return store.WrittenAt(address).value_or(boot) < boot;
}

void CheckLeasesOf(const state::Record& record, Findings& findings) {
  if (LostLeases(record).empty()) {
    return;
  }
  auto store = ipam::Store::OpenIfExists(record.ipam.data_dir, record.id.network);
  if (!store && findings.is_repairing()) {
    store.emplace(ipam::Store::Open(record.ipam.data_dir, record.id.network));
  }
  // Read again under the lock: nobody changes the leases any more.
  for (const Ip& address : LostLeases(record)) {
    if (store && findings.is_repairing()) {
      // While the lease was missing, an ADD in a new directory may have leased the address to
      // `kLeasedElsewhere`.
      store->Release(address, ipam::kLeasedElsewhere);
    }
    Finding finding{Finding::Area::kLease,
                    record.id.container_id,
                    Format("the lease of {} is missing", address)};
    if (store && !store->IsFree(address)) {
      const std::optional<ipam::LeaseOwner> owner = store->FindOwner(address);
      finding.text =
          owner ? Format("the lease of {} belongs to container '{}'", address, owner->container_id)
                : Format("{} is reserved by a file that is no lease", address);
      finding.fix = Fix::Advice(
          Format("if that container uses the address, stop one of the two; else: rm {} && "
                 "nomad-bridge reconcile",
                 ShellWord(Format("{}/{}/{}", record.ipam.data_dir, record.id.network, address))));
      findings.AddUnrepairable(std::move(finding));
    } else {
      findings.Add(std::move(finding),
                   [&] { static_cast<void>(store->Reserve(address, ipam::OwnerOf(record.id))); });
    }
  }
}

void RestoreLeases(state::Host& host,
                   ipam::Store& store,
                   const std::string& network,
                   const std::string& data_dir) {
  for (const AttachmentId& id : host.records.List(network)) {
    const std::optional<state::Record> record = host.records.Find(id);
    if (!record || !record->IsLive(cni::Part::kAddress) || record->ipam.data_dir != data_dir) {
      continue;
    }
    for (const Cidr& lease : record->ipam.leases) {
      static_cast<void>(store.Reserve(lease.address, ipam::OwnerOf(id)));
    }
  }
}

void ReleaseAddresses(const state::Record& record) {
  ReleaseLeases(record.id, record.ipam.data_dir, AddressesOnly(record.ipam.leases));
  // The config comes from the record, because gc has no request. ADD wrote it there; DEL first
  // replaces it by the config of its request (cni::WithConfigOf).
  if (record.ipam.delegated) {
    cni::InvokeIpam(*record.ipam.delegated, cni::Verb::kDel, record.id, record.netns_path);
  }
}

bool AreLeasesKnown(const std::string& network, const std::string& data_dir) {
  return FindOwnFile(KnownPath(network)) == data_dir;
}

std::vector<Ip> FindLeasesFromBefore(state::Host& host,
                                     const ipam::Store& store,
                                     const AttachmentId& id,
                                     const std::string& data_dir) {
  if (AreLeasesKnown(id.network, data_dir)) {
    return {};
  }
  std::vector<Ip> own;
  bool are_all_known = true;
  for (const ipam::Lease& lease : store.Leases()) {
    const ipam::LeaseOwner& owner = lease.owner;
    if (owner.Matches(ipam::OwnerOf(id))) {
      own.push_back(lease.address);
    } else {
      are_all_known =
          are_all_known && (owner == ipam::kLeasedElsewhere || owner.ifname.empty() ||
                            host.records.Has({id.network, owner.container_id, owner.ifname}));
    }
  }
  if (are_all_known) {
    EnsureDirectory(KnownDirectory());
    RecreateFile(KnownPath(id.network), data_dir);
  }
  return own;
}

void EnsureUnusedDirectoryGone(state::Host& host,
                               const std::string& network,
                               const std::string& data_dir) {
  std::optional<ipam::Store> store = data_dir.empty() || host.records.HasNetwork(network)
                                         ? std::nullopt
                                         : ipam::Store::OpenIfExists(data_dir, network);
  if (store) {
    store->RemoveIfUnused();
  }
}

std::vector<Ip> FindLeasesOf(const AttachmentId& id, const std::string& data_dir) {
  std::vector<Ip> addresses;
  if (const auto store = ipam::Store::OpenIfExists(data_dir, id.network)) {
    for (const ipam::Lease& lease : store->Leases()) {
      if (lease.owner.Matches(ipam::OwnerOf(id))) {
        addresses.push_back(lease.address);
      }
    }
  }
  return addresses;
}

void ReleaseLeases(const AttachmentId& id,
                   const std::string& data_dir,
                   const std::vector<Ip>& leases) {
  cni::ErrorList failures;
  std::optional<ipam::Store> store =
      leases.empty() ? std::nullopt : ipam::Store::OpenIfExists(data_dir, id.network);
  if (store) {
    for (const Ip& address : leases) {
      failures.Try(Cat("the lease of ", address),
                   [&] { store->Release(address, ipam::OwnerOf(id)); });
    }
  }
  failures.ThrowIfAny("not every lease could be released");
}

}  // namespace nomad_bridge::attachment
