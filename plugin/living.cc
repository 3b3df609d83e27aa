#include "plugin/living.h"

#include <algorithm>
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

// Whether anybody whom we know of, in this network and alive, has that lease.
bool IsHeld(Host& host, const std::string& network, const ipam::Holder& holder) {
  const std::vector<Attachment> known = host.records.List(network);
  return std::any_of(known.begin(), known.end(), [&](const Attachment& who) {
    return holder.Covers({who.container_id, who.ifname}) && host.records.Find(who);
  });
}

// Who has a record by now lives, or is being worked on: the wall clock may have been set since his
// lease was written, so that the lease looks older than it is.
int ReleaseLeasesFromBeforeBoot(Host& host,
                                const std::string& network,
                                const std::string& data_dir) {
  std::optional<ipam::Store> store = ipam::Store::Find(data_dir, network);
  if (!store) {
    return 0;
  }
  int released = 0;
  const std::int64_t boot = BootTime();
  for (const ipam::Lease& lease : store->Leases()) {
    if (store->WrittenAt(lease.address).value_or(boot) < boot &&
        !IsHeld(host, network, lease.holder)) {
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
  const auto leads_somewhere = [&](const std::optional<Link>& veth) {
    return veth && veth->peer_netns && host.net.IsNetnsAlive(*veth->peer_netns);
  };
  return leads_somewhere(FindHostVeth(host.net, record.who, true)) ||
         std::any_of(
             record.host_links.begin(), record.host_links.end(), [&](const std::string& name) {
               return leads_somewhere(host.net.FindLink(name));
             });
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
  return buried + ReleaseLeasesFromBeforeBoot(host, network, data_dir);
}

}  // namespace nomad_bridge
