#include "plugin/attachment/acquire_addresses.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "firewall/address_policy.h"
#include "ipam/allocator.h"
#include "ipam/store.h"
#include "plugin/attachment/collect.h"
#include "plugin/attachment/lease_history.h"
#include "plugin/attachment/leases.h"
#include "plugin/cni/delegate.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/stale_conntrack.h"
#include "plugin/state/events.h"

namespace nomad_bridge::attachment {
namespace {

Acquired WithLeases(const state::Record& intent,
                    const std::vector<ipam::Assignment>& assignments,
                    const config::Config& config) {
  cni::Result result{.routes = config.ipam.routes, .dns = config.ipam.dns};
  for (const ipam::Assignment& assignment : assignments) {
    result.ips.push_back({.address = assignment.address, .gateway = assignment.gateway});
  }
  Acquired acquired = WithAddresses(intent, std::move(result), config);
  acquired.record.ipam.leases = acquired.record.ipam.addresses;
  return acquired;
}

// The live attachment whose element in the kernel has `address`.
std::optional<state::Record> FindLiveOwner(state::Host& host, const Ip& address) {
  const std::optional<nft::Element> element = firewall::FindAddress(host.nft, address);
  std::optional<state::Record> owner =
      element ? host.records.FindOwner(element->owner()) : std::nullopt;
  return owner && link::IsAlive(host, *owner) ? std::move(owner) : std::nullopt;
}

// Whether an attachment has an address that is free by the store: its lease is in another
// directory, as the network's config has changed; or was lost, and is repaired here; or it is of
// another network behind the same gateway, which is a conflict if it was requested. (Behind another
// gateway it always is one. The commit of the rules reports both.)
struct InUse {
  state::Host& host;
  ipam::Store& store;
  const state::Record& intent;
  const std::vector<Ip>& requested;
  const std::set<std::string>& other_data_dirs;
  Mismatches& repaired;

  bool operator()(const Ip& address) const {
    return IsLeasedElsewhere(address) || IsOfALiveOwner(address);
  }

  [[nodiscard]] bool IsLeasedElsewhere(const Ip& address) const {
    const AttachmentId& id = intent.id;
    return std::ranges::any_of(other_data_dirs, [&](const std::string& data_dir) {
      const std::optional<ipam::LeaseOwner> owner =
          ipam::FindOwnerUnlocked(data_dir, id.network, address);
      return owner && !owner->Matches(ipam::OwnerOf(id)) && HasRecord(host, id.network, *owner);
    });
  }

  [[nodiscard]] bool IsOfALiveOwner(const Ip& address) const {
    const std::optional<state::Record> owner = FindLiveOwner(host, address);
    if (!owner || owner->id == intent.id) {
      return false;
    }
    if (owner->id.network != intent.id.network) {
      return owner->link.gateway_ifname == intent.link.gateway_ifname &&
             !Contains(requested, address);
    }
    if (owner->ipam.data_dir == intent.ipam.data_dir && owner->IsLive(cni::Part::kAddress)) {
      CheckLeasesIn(&store, *owner, repaired);
    }
    return true;
  }
};

// Removes the lease of `address` in `data_dir` if it is stale: its owner has a record that is, or
// it is from before the last boot. Returns the owner if it has to stay.
std::optional<ipam::LeaseOwner> FindLiveLeaseOwner(state::Host& host,
                                                   const std::string& data_dir,
                                                   const AttachmentId& id,
                                                   const Ip& address) {
  std::optional<ipam::Lease> lease;
  if (std::optional<ipam::Store> store = ipam::Store::OpenIfExists(data_dir, id.network)) {
    std::optional<ipam::LeaseOwner> owner = store->FindOwner(address);
    if (!owner || owner->Matches(ipam::OwnerOf(id))) {
      return std::nullopt;
    }
    lease = {.address = address, .owner = *std::move(owner)};
    if (IsFromBeforeBoot(host, *store, id.network, *lease)) {
      store->Release(address, lease->owner);
      return std::nullopt;
    }
  }
  return lease &&
                 !CollectIfStale(host, {id.network, lease->owner.container_id, lease->owner.ifname})
             ? std::optional(lease->owner)
             : std::nullopt;
}

// A requested address that a live attachment has is an error that names it; a stale one is
// reclaimed. In another directory than the config's only a record tells that a lease is in use.
void RequireFree(state::Host& host,
                 const config::IpamConfig& config,
                 const Ip& address,
                 const AttachmentId& id) {
  std::set<std::string> data_dirs = FindLeaseHistory(id.network, config.data_dir).other_data_dirs;
  data_dirs.insert(config.data_dir);
  for (const std::string& data_dir : data_dirs) {
    const std::optional<ipam::LeaseOwner> lease_owner =
        FindLiveLeaseOwner(host, data_dir, id, address);
    if (lease_owner && (data_dir == config.data_dir || HasRecord(host, id.network, *lease_owner))) {
      const AttachmentId owner{id.network, lease_owner->container_id, lease_owner->ifname};
      const std::optional<state::Record> record = host.records.Find(owner);
      throw cni::TakenBy(
          Cat("address ", address), owner, record ? record->labels : cni::Labels{}, {});
    }
  }
}

// Releases those of `previous`, leases of an earlier ADD, that are not among `assignments`. Called
// before the new record replaces the earlier one, which alone names these leases.
void ReleaseAbandoned(ipam::Store& store,
                      const ipam::LeaseOwner& owner,
                      const std::vector<Ip>& previous,
                      const std::vector<ipam::Assignment>& assignments) {
  for (const Ip& address : previous) {
    const bool kept = std::ranges::any_of(assignments, [&](const ipam::Assignment& assignment) {
      return assignment.address.address == address;
    });
    if (!kept) {
      store.Release(address, owner);
    }
  }
}

// Chooses, records and reserves, in this order; nothing if a range set is full.
struct Choice {
  Acquired acquired;
  std::optional<std::size_t> full_set;
};

Choice TryAcquire(state::Host& host,
                  const config::Config& config,
                  const state::Record& intent,
                  const std::optional<state::Record>& earlier) {
  Mismatches repaired(Mode::kRepair);
  const state::RepairLog log(repaired);
  ipam::Store store = ipam::Store::Open(config.ipam.data_dir, intent.id.network);
  if (store.IsNew()) {
    CheckLeasesOfAll(host, store, intent.id.network, config.ipam.data_dir, repaired);
  }
  const LeaseHistory history =
      EnsureLeaseHistory(host, store, intent.id.network, config.ipam.data_dir);
  const InUse is_in_use{
      host, store, intent, config.ipam.requested, history.other_data_dirs, repaired};
  const ipam::Request wanted{.requested = config.ipam.requested,
                             .previous = earlier ? AddressesOnly(earlier->ipam.leases)
                                                 : LeasedTo(intent.id, history.former),
                             .is_in_use = is_in_use,
                             .owner = ipam::OwnerOf(intent.id)};
  const ipam::Allocation choice = ipam::Choose(store, config.ipam.ranges, wanted);
  if (choice.full_set) {
    return {.full_set = choice.full_set};
  }
  Acquired acquired = WithLeases(intent, choice.assignments, config);
  // Abandoned leases go while the earlier record still names them; then the record is written, and
  // only then are the leases: killed in between, the next ADD or DEL finds by the record what to
  // give back.
  ReleaseAbandoned(store, wanted.owner, wanted.previous, choice.assignments);
  host.records.Write(acquired.record);
  try {
    ipam::Reserve(store, choice.assignments, wanted.owner);
  } catch (const Error&) {
    host.records.EnsureGone(intent.id);
    throw;
  }
  return {.acquired = std::move(acquired)};
}

std::string Describe(const ipam::RangeSet& set) {
  return Joined(
      set, ", ", [](const ipam::Range& range) { return Cat(range.first, "-", range.last); });
}

// The pool was found full. Looking for what is stale reads all records of the network. One command
// at a time: of two that look at the same stale attachment at once, the second finds it locked, or
// already gone, and would say that nothing is free. So each tries first what the one before freed.
Choice TryAcquireFromFull(state::Host& host,
                          const config::Config& config,
                          const state::Record& intent,
                          const std::optional<state::Record>& earlier) {
  const std::string& network = intent.id.network;
  const FileLock one_at_a_time = host.records.LockPool(network);
  Choice choice = TryAcquire(host, config, intent, earlier);
  if (choice.full_set) {
    Collect(host, {.network = network, .data_dir = config.ipam.data_dir}, Mode::kRepair);
    choice = TryAcquire(host, config, intent, earlier);
  }
  return choice;
}

Acquired AcquireLeases(state::Host& host,
                       const config::Config& config,
                       const state::Record& intent,
                       const std::optional<state::Record>& earlier) {
  for (const Ip& address : config.ipam.requested) {
    RequireFree(host, config.ipam, address, intent.id);
    if (!address.is_ipv4()) {
      rules::DeleteStaleConntrackOf(host, address);  // its former owner's DEL may not have
    }
  }
  // Its record, which alone says where these are, is about to be replaced.
  if (earlier && earlier->ipam.data_dir != intent.ipam.data_dir) {
    ReleaseAddresses(*earlier);
  }
  Choice choice = TryAcquire(host, config, intent, earlier);
  if (choice.full_set) {
    choice = TryAcquireFromFull(host, config, intent, earlier);
  }
  if (choice.full_set) {
    throw Error(Code::kPoolExhausted,
                Format("no free address in network '{}'", intent.id.network),
                Format("every address of {} is leased in '{}/{}', and no lease is stale",
                       Describe(config.ipam.ranges[*choice.full_set]),
                       config.ipam.data_dir,
                       intent.id.network));
  }
  return std::move(choice.acquired);
}

// A gateway that the plugin does not name is the subnet's first address, as in the reference bridge
// plugin.
cni::Result WithGateways(cni::Result result) {
  for (cni::IpConfig& ip : result.ips) {
    ip.gateway = ip.gateway.value_or(ip.address.Network().Plus(1));
  }
  return result;
}

}  // namespace

Acquired WithAddresses(state::Record intent, cni::Result result, const config::Config& config) {
  for (const cni::IpConfig& ip : result.ips) {
    intent.ipam.addresses.push_back(ip.address);
    if (config.link.is_gateway && ip.gateway) {
      intent.link.gateways.push_back({*ip.gateway, ip.address.prefix_length});
    }
  }
  intent.rules.forward_hook.ipv6 = intent.HasIpv6();
  intent.rules.ports = portmap::Resolve(config.rules.ports, AddressesOnly(intent.ipam.addresses));
  return {.record = std::move(intent), .result = std::move(result)};
}

Acquired AcquireAddresses(state::Host& host,
                          const cni::Request& request,
                          const config::Config& config,
                          state::Record intent,
                          const std::optional<state::Record>& earlier) {
  if (earlier && (earlier->ipam.delegated || config.ipam.type != cni::kHostLocal)) {
    ReleaseAddresses(*earlier);
  }
  if (config.ipam.type == cni::kHostLocal) {
    return AcquireLeases(host, config, intent, earlier);
  }
  intent.ipam.delegated = cni::FindDelegatedIpam(request, config.ipam.type);
  if (intent.ipam.delegated) {
    intent.link.mac = intent.ContainerMac();  // the link comes before the address
  }
  host.records.Write(intent);
  return {.record = std::move(intent), .result = {}};
}

Acquired AskDelegatedIpam(state::Host& host,
                          const cni::Request& request,
                          const config::Config& config,
                          const state::Record& record) {
  const cni::DelegatedIpam& plugin = *record.ipam.delegated;
  const std::string answer = cni::InvokeIpam(plugin, cni::Verb::kAdd, record.id, record.netns_path);
  cni::Result result = cni::ParseDelegated(plugin, answer, request.cni_version);
  if (config.link.is_gateway) {
    result = WithGateways(std::move(result));
  }
  Acquired acquired = WithAddresses(record, std::move(result), config);
  host.records.Write(acquired.record);
  return acquired;
}

void UndoAcquired(state::Host& host, const state::Record& record, Undo& undo) {
  undo.Then("remove the record", [&host, id = record.id] { host.records.EnsureGone(id); });
  // CNI wants a delegate's DEL also after its ADD has failed.
  undo.Then("release the addresses", [record] { ReleaseAddresses(record); });
}

}  // namespace nomad_bridge::attachment
