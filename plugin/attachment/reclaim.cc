#include "plugin/attachment/reclaim.h"

#include <algorithm>
#include <ctime>

#include "base/log.h"
#include "base/text.h"
#include "ipam/store.h"
#include "plugin/attachment/remove.h"
#include "plugin/cni/error_list.h"
#include "plugin/link/liveness.h"

namespace nomad_bridge::attachment {
namespace {

// In seconds since the epoch.
std::int64_t BootTime() {
  timespec now{};
  timespec uptime{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  ::clock_gettime(CLOCK_BOOTTIME, &uptime);
  return now.tv_sec - uptime.tv_sec;
}

bool HasRecord(state::Host& host, const std::string& network, const ipam::LeaseOwner& owner) {
  const std::vector<AttachmentId> recorded = host.records.List(network);
  return std::ranges::any_of(recorded, [&](const AttachmentId& id) {
    return owner.Matches(ipam::OwnerOf(id)) && host.records.Find(id);
  });
}

// Skips leases whose owner has a record: if the clock was stepped since they were written, a
// modification time before the boot proves nothing.
int ReleaseLeasesFromBeforeBoot(state::Host& host,
                                const std::string& network,
                                const std::string& data_dir) {
  std::optional<ipam::Store> store = ipam::Store::OpenIfExists(data_dir, network);
  if (!store) {
    return 0;
  }
  int released = 0;
  const std::int64_t boot = BootTime();
  for (const ipam::Lease& lease : store->Leases()) {
    if (store->WrittenAt(lease.address).value_or(boot) < boot &&
        !HasRecord(host, network, lease.owner)) {
      store->Release(lease.address, lease.owner);
      ++released;
    }
  }
  return released;
}

}  // namespace

bool ReclaimIfStale(state::Host& host, const AttachmentId& id) {
  const std::optional<RangeLock> lock = host.records.TryLock(id);
  const std::optional<state::Record> record = lock ? host.records.Find(id) : std::nullopt;
  if (!record || link::IsAlive(host, *record)) {
    return false;
  }
  const std::vector<std::string> failures = Remove(host, *record);
  if (!failures.empty()) {
    LogLine("cannot reclaim stale container '{}', ignoring: {}",
            id.container_id,
            cni::ErrorList::Join(failures));
    return false;
  }
  LogLine("reclaimed what stale container '{}' held", id.container_id);
  return true;
}

int ReclaimStale(state::Host& host, const std::string& network, const std::string& data_dir) {
  int reclaimed = 0;
  for (const AttachmentId& id : host.records.List(network)) {
    reclaimed += ReclaimIfStale(host, id) ? 1 : 0;
  }
  return reclaimed + ReleaseLeasesFromBeforeBoot(host, network, data_dir);
}

}  // namespace nomad_bridge::attachment
