#include "plugin/attachment/collect.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "ipam/store.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/remove.h"
#include "plugin/attachment/unrecorded.h"
#include "plugin/cni/error_list.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/check_ruleset.h"
#include "plugin/rules/left_over.h"
#include "plugin/state/events.h"
#include "plugin/state/kernel_names.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::attachment {
namespace {

// Returns whether `record` is stale. The answer holds only while no command has its lock: then a
// killed command left the parts that are not live.
bool IsStale(state::Host& host, const state::Record& record) {
  return !record.IsAny(state::Phase::kLive) || !link::IsAlive(host, record);
}

std::string Describe(const state::Record& record) {
  std::vector<std::string> parts;
  for (const Cidr& cidr : record.ipam.addresses) {
    parts.push_back(Cat(cidr.address));
  }
  for (const portmap::DnatEntry& port : record.rules.ports) {
    std::string part = Format("{} port {}", Text(port.protocol), port.host_port);
    if (!Contains(parts, part)) {  // one entry per family
      parts.push_back(std::move(part));
    }
  }
  return Format("container '{}' of network '{}' is stale{}",
                record.id.container_id,
                record.id.network,
                parts.empty() ? "" : Cat(", and has ", Joined(parts, ", ")));
}

struct LeaseDirectory {
  std::string data_dir;
  std::string network;

  auto operator<=>(const LeaseDirectory&) const = default;

  [[nodiscard]] std::string Text() const { return Format("{}/{}", data_dir, network); }
};

class Collector {
 public:
  Collector(state::Host& host, const Collection& collection, ReconcileReport& report)
      : host_(host), collection_(collection), report_(report), log_(report.findings) {
    if (!collection.data_dir.empty()) {
      directories_.insert({collection.data_dir, collection.network});
      return;
    }
    // The directory also shows networks that have leases but no record any more.
    const std::string& usual = cni::TypeOf("nomad-bridge").defaults.data_dir;
    for (const std::string& network : Entries(usual)) {
      if (FindStatus(Format("{}/{}/lock", usual, network))) {
        directories_.insert({usual, network});
      }
    }
  }

  void Run(const Progress& progress) {
    if (collection_.recorded) {
      for (const auto& [id, data_dir] : *collection_.recorded) {
        Remember(id, data_dir);
      }
      return LookAtLeases();
    }
    const std::vector<AttachmentId> all = host_.records.List(collection_.network);
    for (std::size_t done = 0; done < all.size(); ++done) {
      report_.Try(Finding::Area::kLeftOver, Format("container '{}'", all[done].container_id), [&] {
        LookAtRecord(all[done]);
      });
      progress(done + 1, all.size());
    }
    // After the records: leases that are left now belong to no record.
    if (collection_.leases) {
      LookAtLeases();
    }
    report_.Try(Finding::Area::kLeftOver, "stray links", [&] { LookAtUnrecordedPorts(); });
    // After the links and the leases: elements that are left now belong to nothing else.
    if (collection_.rules) {
      report_.Try(Finding::Area::kLeftOver, "stray rules", [&] {
        rules::CheckLeftOver(
            host_, collection_.valid.value_or(std::set<AttachmentId>()), report_.findings);
      });
      // A runtime may call nothing else for days.
      report_.Try(Finding::Area::kTable, "the rules", [&] {
        rules::CheckRuleset(host_, report_.findings, nullptr);
      });
    }
  }

 private:
  // Remembers that `id` has a record, and where its leases are.
  void Remember(const AttachmentId& id, const std::string& data_dir) {
    recorded_.insert(id);
    if (collection_.data_dir.empty() && !data_dir.empty()) {
      directories_.insert({data_dir, id.network});
    }
  }

  void LookAtRecord(const AttachmentId& id) {
    ++report_.attachments;
    const std::optional<state::Record> record = host_.records.FindOwn(id);
    if (record) {
      Remember(id, record->ipam.data_dir);
    }
    if (IsValid(id)) {
      return;
    }
    if (record && !collection_.valid && !IsStale(host_, *record)) {
      return;
    }
    const std::optional<FileLock> lock = LockOf(id);
    if (!lock) {
      report_.busy.push_back(id);
      return;
    }
    // Read again under the lock: nobody changes the record any more.
    const std::optional<state::Record> locked = host_.records.FindOwn(id);
    if (locked && (collection_.valid || IsStale(host_, *locked))) {
      AddRemoval(*locked, Describe(*locked));
    } else if (!locked) {
      CollectVoidRecord(id);
    }
  }

  // Removes a void record. If its attachment has a link, the record stays for CHECK to rebuild it.
  void CollectVoidRecord(const AttachmentId& id) {
    if (collection_.valid ? host_.records.IsVoid(id) : HasVoidRecordAndNoLink(host_, id)) {
      report_.findings.Add(
          {Finding::Area::kLeftOver,
           id.container_id,
           Format(
               "the record of container '{}' of network '{}' cannot be read, or is of another boot",
               id.container_id,
               id.network)},
          [&] { host_.records.EnsureVoidGone(id); });
    }
  }

  void LookAtLeases() {
    for (const LeaseDirectory& directory : directories_) {
      report_.Try(Finding::Area::kLeftOver, Cat("leases in '", directory, '\''), [&] {
        LookAtLeasesIn(directory);
      });
    }
  }

  void LookAtLeasesIn(const LeaseDirectory& directory) {
    std::vector<ipam::Lease> leases;
    // The store's lock is released here: lock order puts an attachment's lock before it.
    if (const auto store = StoreIn(directory)) {
      leases = store->Leases();
    }
    held_.emplace(host_);
    for (const ipam::Lease& lease : leases) {
      const AttachmentId id{directory.network, lease.owner.container_id, lease.owner.ifname};
      // An operator reserves an address with a file that names no interface.
      if (id.ifname.empty() || recorded_.contains(id) || IsValid(id)) {
        continue;
      }
      report_.Try(Finding::Area::kLeftOver, Format("container '{}'", id.container_id), [&] {
        const std::optional<FileLock> lock = LockOf(id);
        // An ADD writes its record before its leases. The lease was seen before this lock was
        // taken, so the record of its owner exists by now.
        if (lock && !host_.records.Find(id)) {
          LookAtLease(lease, directory, id);
        }
      });
    }
  }

  // Removes an attachment on the bridge whose record was lost, if a runtime does not list it. Its
  // link shows which attachment it is.
  void LookAtUnrecordedPorts() {
    const std::optional<rtnl::Link> bridge =
        collection_.bridge.empty() ? std::nullopt : host_.net.FindLink(collection_.bridge);
    if (!bridge) {
      return;
    }
    const std::vector<rtnl::Link> ports = host_.net.Ports(bridge->index);
    // Read after the ports: an ADD writes its record before it creates its link.
    std::set<std::string> owners = state::HostVethNames(host_.records.List(""));
    owners.merge(state::HostVethNames(collection_.valid.value_or(std::set<AttachmentId>())));
    for (const rtnl::Link& port : ports) {
      const std::optional<rtnl::Link> link =
          owners.contains(port.name) ? std::nullopt : host_.net.FindLink(port.index);
      const std::optional<state::ParsedAlias> alias =
          link ? state::ParseAlias(link->alias) : std::nullopt;
      if (alias && alias->id.network == collection_.network) {
        const std::optional<FileLock> lock = LockOf(alias->id);
        const Leases none_known = {.data_dir = collection_.data_dir, .addresses = {}};
        AddRemoval(RecordFromKernel(host_, alias->id, none_known, dumps_),
                   Format("{} has no record", link->name));
      }
    }
  }

  [[nodiscard]] bool IsValid(const AttachmentId& id) const {
    return collection_.valid && collection_.valid->contains(id);
  }

  std::optional<FileLock> LockOf(const AttachmentId& id) {
    // If a runtime lists the valid attachments, the others have to go: waits for a command that
    // works on `id`. Without a list, a command at work shows that the attachment is alive.
    return collection_.valid ? std::optional(host_.records.Lock(id)) : host_.records.TryLock(id);
  }

  void AddRemoval(const state::Record& record, std::string text) {
    report_.findings.Add({Finding::Area::kLeftOver, record.id.container_id, std::move(text)}, [&] {
      const cni::ErrorList failures(Remove(host_, record, record.AllParts()));
      if (!failures.empty()) {
        throw Error(Code::kIncomplete, cni::ErrorList::Join(failures.list()));
      }
    });
  }

  static std::optional<ipam::Store> StoreIn(const LeaseDirectory& directory) {
    return ipam::Store::OpenIfExists(directory.data_dir, directory.network);
  }

  static bool IsOfEarlierBoot(const ipam::Lease& lease, const LeaseDirectory& directory) {
    const std::optional<ipam::Store> store = StoreIn(directory);
    return store && WasWrittenBeforeBoot(*store, lease.address);
  }

  // Looks at a lease without a record. The caller holds the owner's lock. With a list of valid
  // attachments, releases the lease. Without a list, the lease stays while a container has the
  // address, and until the next boot. The operator's gc releases it in this boot, too, if the owner
  // has neither a link nor rules.
  void LookAtLease(const ipam::Lease& lease,
                   const LeaseDirectory& directory,
                   const AttachmentId& id) {
    const bool is_anothers = lease.owner == ipam::kLeasedElsewhere;
    if ((!collection_.valid || is_anothers) && held_->Contains(lease.address)) {
      return;
    }
    state::Record owner = RecordFromKernel(
        host_, id, {.data_dir = directory.data_dir, .addresses = {lease.address}}, dumps_);
    const bool is_removed_whole =
        collection_.valid || (collection_.network.empty() && !owner.Has(cni::Part::kLink) &&
                              !takeover::HasReferenceRules(id, dumps_.reference_rules));
    if (!is_removed_whole) {
      if (!is_anothers && !IsOfEarlierBoot(lease, directory)) {
        return;
      }
      owner = owner.Only({cni::Part::kAddress});
    }
    AddRemoval(owner,
               Format("the lease of {} in '{}' is of container '{}', which has nothing else",
                      lease.address,
                      directory,
                      id.container_id));
  }

  state::Host& host_;
  const Collection& collection_;
  ReconcileReport& report_;
  state::RepairLog log_;
  std::set<LeaseDirectory> directories_;
  std::set<AttachmentId> recorded_;
  std::optional<link::HeldAddresses> held_;  // read again for each directory
  Dumps dumps_{host_.nft};
};

}  // namespace

ReconcileReport Collect(state::Host& host,
                        const Collection& collection,
                        Mode mode,
                        const Progress& progress) {
  ReconcileReport report(mode);
  Collector(host, collection, report).Run(progress);
  return report;
}

bool HasVoidRecordAndNoLink(state::Host& host, const AttachmentId& id) {
  return host.records.IsVoid(id) && !link::FindHostVeth(host.net, id, link::Recorded::kNo);
}

bool CollectIfStale(state::Host& host, const AttachmentId& id) {
  const std::optional<FileLock> lock = host.records.TryLock(id);
  const std::optional<state::Record> record = lock ? host.records.Find(id) : std::nullopt;
  if (!record || !IsStale(host, *record)) {
    return false;
  }
  const std::vector<std::string> failures = Remove(host, *record, record->AllParts());
  if (!failures.empty()) {
    LogLine("cannot remove what the stale container '{}' left, ignoring: {}",
            id.container_id,
            cni::ErrorList::Join(failures));
    return false;
  }
  LogLine("removed: {}", Describe(*record));
  return true;
}

}  // namespace nomad_bridge::attachment
