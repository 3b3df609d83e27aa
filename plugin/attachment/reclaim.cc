#include "plugin/attachment/reclaim.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "ipam/store.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/remove.h"
#include "plugin/cni/error_list.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/converge.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::attachment {
namespace {

int ReleaseLeasesFromBeforeBoot(state::Host& host,
                                const std::string& network,
                                const std::string& data_dir) {
  std::optional<ipam::Store> store = ipam::Store::OpenIfExists(data_dir, network);
  if (!store) {
    return 0;
  }
  int released = 0;
  for (const ipam::Lease& lease : store->Leases()) {
    if (IsFromBeforeBoot(host, *store, network, lease)) {
      store->Release(lease.address, lease.owner);
      ++released;
    }
  }
  return released;
}

// Its own lock is held.
std::optional<state::Record> FindStale(state::Host& host, const AttachmentId& id) {
  std::optional<state::Record> record = host.records.Find(id);
  const bool is_alive =
      record && record->IsAny(state::Phase::kLive) && link::IsAlive(host, *record);
  return is_alive ? std::nullopt : std::move(record);
}

std::string Describe(const state::Record& record) {
  std::string text =
      Format("container '{}' of network '{}' is gone", record.id.container_id, record.id.network);
  const char* separator = ", and has ";
  for (const Cidr& cidr : record.ipam.addresses) {
    text += Cat(std::exchange(separator, ", "), cidr.address);
  }
  for (const portmap::DnatEntry& port : record.rules.ports) {
    text += Format("{}{} port {}",
                   std::exchange(separator, ", "),
                   portmap::Text(port.protocol),
                   port.host_port);
  }
  return text;
}

struct LeaseDirectory {
  std::string data_dir;
  std::string network;

  auto operator<=>(const LeaseDirectory&) const = default;
};

class Reclamation {
 public:
  Reclamation(state::Host& host, Dry dry) : host_(host), dry_(dry) {
    const std::string& usual = cni::TypeOf("nomad-bridge").defaults.data_dir;
    for (const std::string& network : Entries(state::kStateFolder)) {
      if (!network.starts_with('.')) {
        directories_.insert({usual, network});
      }
    }
  }

  void Look(const AttachmentId& id) {
    ++findings_.attachments;
    const std::optional<RangeLock> lock = host_.records.TryLock(id);
    if (!lock) {
      findings_.busy.push_back(id);
      return;
    }
    if (const std::optional<state::Record> stale = FindStale(host_, id)) {
      findings_.found.push_back(Describe(*stale));
      Act(id, [&] { return Remove(host_, *stale); });
    }
  }

  // Where its network has leases. To be called before its record is removed.
  void NoteDirectory(const AttachmentId& id) {
    if (const std::optional<state::Record> record = host_.records.Find(id)) {
      directories_.insert({record->ipam.data_dir, id.network});
    }
  }

  void LookAtLeases() {
    for (const LeaseDirectory& directory : directories_) {
      findings_.Try(Format("leases in '{}/{}'", directory.data_dir, directory.network), [&] {
        const std::vector<ipam::Lease> leases = LeasesIn(directory);
        // Listed after them: an ADD writes its record first.
        const std::vector<AttachmentId> ids = host_.records.List(directory.network);
        const std::set<AttachmentId> recorded(ids.begin(), ids.end());
        for (const ipam::Lease& lease : leases) {
          const AttachmentId id{directory.network, lease.owner.container_id, lease.owner.ifname};
          if (!recorded.contains(id)) {
            LookAt(lease, directory, id);
          }
        }
      });
    }
  }

  void LookAtRules() {
    findings_.Try("the rules", [&] {
      Append(findings_.found,
             dry_ == Dry::kYes ? rules::DiffAll(host_) : rules::ConvergeAll(host_, {}));
    });
  }

  [[nodiscard]] Findings Take() { return std::move(findings_); }

 private:
  template <typename Removal>
  void Act(const AttachmentId& id, Removal remove) {
    if (dry_ == Dry::kYes) {
      return;
    }
    findings_.Try(Format("container '{}'", id.container_id), [&] {
      const std::vector<std::string> failures = remove();
      for (const std::string& failure : failures) {
        findings_.failed.push_back(Format("container '{}': {}", id.container_id, failure));
      }
      if (failures.empty()) {
        LogLine("reclaimed what stale container '{}' held", id.container_id);
      }
    });
  }

  // The leases' lock is released again: an attachment's comes before it.
  static std::vector<ipam::Lease> LeasesIn(const LeaseDirectory& directory) {
    const std::optional<ipam::Store> store =
        directory.data_dir.empty()
            ? std::nullopt
            : ipam::Store::OpenIfExists(directory.data_dir, directory.network);
    return store ? store->Leases() : std::vector<ipam::Lease>();
  }

  bool IsLeftOver(const ipam::Lease& lease,
                  const LeaseDirectory& directory,
                  const AttachmentId& id) {
    if (HasRecord(host_, id.network, lease.owner)) {
      return false;
    }
    if (const auto store = ipam::Store::OpenIfExists(directory.data_dir, directory.network);
        store && IsFromBeforeBoot(host_, *store, id.network, lease)) {
      return true;
    }
    // Without an interface its link is unknown.
    return !id.ifname.empty() && !link::FindHostVeth(host_.net, id, link::Recorded::kNo) &&
           !takeover::HasReferenceRules(host_, id);
  }

  void LookAt(const ipam::Lease& lease, const LeaseDirectory& directory, const AttachmentId& id) {
    const std::optional<RangeLock> lock = host_.records.TryLock(id);
    if (lock && IsLeftOver(lease, directory, id)) {
      findings_.found.push_back(
          Format("the lease of {} in '{}/{}' is of container '{}', which has nothing else",
                 lease.address,
                 directory.data_dir,
                 directory.network,
                 id.container_id));
      Act(id, [&] { return RemoveUnrecorded(host_, id, directory.data_dir); });
    }
  }

  state::Host& host_;
  Dry dry_;
  Findings findings_;
  std::set<LeaseDirectory> directories_;
};

}  // namespace

bool ReclaimIfStale(state::Host& host, const AttachmentId& id) {
  const std::optional<RangeLock> lock = host.records.TryLock(id);
  const std::optional<state::Record> record = lock ? FindStale(host, id) : std::nullopt;
  if (!record) {
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

Findings ReclaimAll(state::Host& host, Dry dry, const Progress& progress) {
  Reclamation reclamation(host, dry);
  const std::vector<AttachmentId> all = host.records.List("");
  for (std::size_t done = 0; done < all.size(); ++done) {
    reclamation.NoteDirectory(all[done]);
    reclamation.Look(all[done]);
    progress(done + 1, all.size());
  }
  reclamation.LookAtLeases();
  reclamation.LookAtRules();
  return reclamation.Take();
}

Findings FindLeftOverLeases(state::Host& host) {
  Reclamation reclamation(host, Dry::kYes);
  for (const AttachmentId& id : host.records.List("")) {
    reclamation.NoteDirectory(id);
  }
  reclamation.LookAtLeases();
  return reclamation.Take();
}

}  // namespace nomad_bridge::attachment
