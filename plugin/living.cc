#include "plugin/living.h"

#include <ctime>

#include "base/text.h"
#include "ipam/store.h"
#include "plugin/failures.h"
#include "plugin/link.h"
#include "plugin/log.h"
#include "plugin/teardown.h"

namespace nomad_bridge {
namespace {

// Seconds since the epoch at which this machine started.
std::int64_t BootTime() {
  timespec now{};
  timespec uptime{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  ::clock_gettime(CLOCK_BOOTTIME, &uptime);
  return now.tv_sec - uptime.tv_sec;
}

int ReleaseLeasesFromBeforeBoot(const std::string& network, const std::string& data_dir) {
  std::optional<ipam::Store> store = ipam::Store::Find(data_dir, network);
  if (!store) {
    return 0;
  }
  int released = 0;
  const std::int64_t boot = BootTime();
  for (const ipam::Lease& lease : store->Leases()) {
    if (store->WrittenAt(lease.address).value_or(boot) < boot) {
      store->Release(lease.address, lease.holder);
      ++released;
    }
  }
  return released;
}

}  // namespace

bool IsAlive(Host& host, const Record& record) {
  const std::optional<Netns> netns = Netns::Find(record.netns_path);
  if (netns && netns->id() == record.netns) {
    return true;
  }
  // The path is a name, and a name can go before the namespace does (or be out of our sight).
  const std::optional<Link> veth = FindHostVeth(host.net, record.who, true);
  return veth && veth->peer_netns && host.net.IsNetnsAlive(*veth->peer_netns);
}

std::vector<Record> LivingOthers(Host& host, const Attachment& except) {
  std::vector<Record> living;
  for (const Attachment& who : host.records.List("")) {
    std::optional<Record> record;
    if (who != except && (record = host.records.Find(who)) && IsAlive(host, *record)) {
      living.push_back(*std::move(record));
    }
  }
  return living;
}

bool BuryIfDead(Host& host, const Attachment& who) {
  const std::optional<RangeLock> lock = host.records.TryLock(who);
  const std::optional<Record> record = lock ? host.records.Find(who) : std::nullopt;
  if (!record || IsAlive(host, *record)) {
    return false;
  }
  const std::vector<std::string> failures = TearDown(host, *record);
  if (!failures.empty()) {
    Say("cannot bury the dead container ",
        Quoted(who.container_id),
        ", ignoring: ",
        Failures::Join(failures));
    return false;
  }
  Say("gave back what the dead container ", Quoted(who.container_id), " held");
  return true;
}

int BuryTheDead(Host& host, const std::string& network, const std::string& data_dir) {
  int buried = 0;
  for (const Attachment& who : host.records.List(network)) {
    buried += BuryIfDead(host, who) ? 1 : 0;
  }
  return buried + ReleaseLeasesFromBeforeBoot(network, data_dir);
}

}  // namespace nomad_bridge
