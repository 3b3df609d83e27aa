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

// Seconds since the epoch at which this machine started.
std::int64_t BootTime() {
  timespec now{};
  timespec uptime{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  ::clock_gettime(CLOCK_BOOTTIME, &uptime);
  return now.tv_sec - uptime.tv_sec;
}

// Whether anybody whom we know of, in this network and alive, has that lease.
bool IsHeld(state::Host& host, const std::string& network, const ipam::LeaseOwner& owner) {
  const std::vector<AttachmentId> known = host.records.List(network);
  return std::any_of(known.begin(), known.end(), [&](const AttachmentId& id) {
    return owner.Matches({id.container_id, id.ifname}) && host.records.Find(id);
  });
}

// Who has a record by now lives, or is being worked on: the wall clock may have been set since his
// lease was written, so that the lease looks older than it is.
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
        !IsHeld(host, network, lease.owner)) {
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
    LogLine("cannot reclaim stale container ",
            Quoted(id.container_id),
            ", ignoring: ",
            cni::ErrorList::Join(failures));
    return false;
  }
  LogLine("reclaimed what stale container ", Quoted(id.container_id), " held");
  return true;
}

int ReclaimStale(state::Host& host, const std::string& network, const std::string& data_dir) {
  int buried = 0;
  for (const AttachmentId& id : host.records.List(network)) {
    buried += ReclaimIfStale(host, id) ? 1 : 0;
  }
  return buried + ReleaseLeasesFromBeforeBoot(host, network, data_dir);
}

}  // namespace nomad_bridge::attachment
