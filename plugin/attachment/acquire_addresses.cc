#include "plugin/attachment/acquire_addresses.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "firewall/table.h"
#include "ipam/allocator.h"
#include "ipam/store.h"
#include "plugin/attachment/collect.h"
#include "plugin/attachment/leases.h"
#include "plugin/cni/delegate.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/stale_conntrack.h"
#include "plugin/takeover/reference.h"

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

// Returns whether the kernel shows that an address without a lease is in use: its lease was lost,
// or is in another directory. Takes a few round trips, whatever the number of attachments.
struct InUse {
  state::Host& host;
  const state::Record& intent;
  link::HeldAddresses& held;

  [[nodiscard]] bool operator()(const Ip& address) const {
    const std::optional<nft::Element> element = firewall::FindAddress(host.nft, address);
    return element ? IsOfALiveOwner(std::string(element->owner()), address)
                   : IsNeighbour(address) || takeover::IsAccepted(host.nft, address);
  }

  // The kernel may still remember the address of an attachment of ours that is gone. Such an entry
  // has the MAC that we derive from the address, so only another MAC counts.
  [[nodiscard]] bool IsNeighbour(const Ip& address) const {
    const std::string& name = intent.link.gateway_ifname;
    const std::optional<rtnl::Link> gateway = name.empty() ? std::nullopt : host.net.FindLink(name);
    const std::optional<rtnl::Neighbour> neighbour =
        gateway ? host.net.FindNeighbour(*gateway, address) : std::nullopt;
    return neighbour && neighbour->mac != Mac::For(address) && held.Contains(address);
  }

  [[nodiscard]] bool IsOfALiveOwner(const std::string& owner, const Ip& address) const {
    const std::optional<state::Record> record = host.records.FindOwner(owner);
    if (!record) {
      // The record was lost, too. The owner is named after its host veth. If another plugin made
      // the link, no link has that name, but the container still has the address.
      return owner.empty() || host.net.FindLink(owner) || held.Contains(address);
    }
    // Networks with different gateways must not share an address. Such an address is not skipped
    // here: the commit of the rules refuses it and names the network.
    const bool is_same_network = record->id.network == intent.id.network ||
                                 record->link.gateway_ifname == intent.link.gateway_ifname;
    return record->id != intent.id && is_same_network && link::IsAlive(host, *record);
  }
};

// Returns whether the lease is stale. Such a lease is from before the boot, or was written for the
// container of another plugin. The time of a lease alone proves nothing, because the clock may have
// been set since. So the lease is stale only if also no container has the address, and the owner
// has no record of this boot.
bool IsLeaseStale(state::Host& host,
                  const ipam::Store& store,
                  const AttachmentId& owner,
                  const Ip& address) {
  // An operator reserves an address with a file that names no interface.
  return !owner.ifname.empty() &&
         (store.FindOwner(address) == ipam::kLeasedElsewhere ||
          WasWrittenBeforeBoot(store, address)) &&
         !host.records.Find(owner) && !link::HeldAddresses(host).Contains(address);
}

// Releases the lease of a requested address if it is stale: its owner's record is stale, or the
// lease predates the boot. Throws an error that names the attachment if a live one has the address.
void RequireFree(state::Host& host,
                 const std::string& data_dir,
                 const Ip& address,
                 const AttachmentId& id) {
  std::optional<ipam::LeaseOwner> owner;
  AttachmentId owner_id{.network = id.network};
  // Lock order: the leases' lock is released before another attachment's lock is tried.
  if (std::optional<ipam::Store> store = ipam::Store::OpenIfExists(data_dir, id.network)) {
    owner = store->FindOwner(address);
    owner_id.container_id = owner ? owner->container_id : "";
    owner_id.ifname = owner ? owner->ifname : "";
    if (owner && IsLeaseStale(host, *store, owner_id, address)) {
      store->Release(address, *owner);
      return;
    }
  }
  if (!owner || owner->Matches(ipam::OwnerOf(id))) {
    return;
  }
  if (!CollectIfStale(host, owner_id)) {
    const std::optional<state::Record> record = host.records.Find(owner_id);
    throw cni::TakenBy(
        Cat("address ", address), owner_id, record ? record->labels : cni::Labels{}, {});
  }
}

// Releases the leases of an earlier ADD, `previous`, that are not among `assignments`.
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

// Leases the addresses that containers of other plugins have. Their own leases are in another
// directory. A container that has never sent a packet can be found only in its namespace. Looking
// into every namespace would be too slow for every ADD, so a lease stores each address that was
// found.
void LeaseHeldAddresses(state::Host& host,
                        ipam::Store& store,
                        const std::vector<ipam::RangeSet>& sets,
                        link::HeldAddresses& held) {
  for (const ipam::RangeSet& set : sets) {
    for (const ipam::Range& range : set) {
      for (const Ip& address : held.All()) {
        if (range.Offers(address) && !firewall::FindAddress(host.nft, address)) {
          static_cast<void>(store.Reserve(address, ipam::kLeasedElsewhere));
        }
      }
    }
  }
}

// The result of TryAcquire(). `full_set`: this range set has no free address, and nothing was
// written.
struct Attempt {
  Acquired acquired;
  std::optional<std::size_t> full_set;
};

// Chooses addresses, writes the record, reserves the leases, in this order.
Attempt TryAcquire(state::Host& host,
                   const config::Config& config,
                   const state::Record& intent,
                   const std::optional<state::Record>& earlier) {
  ipam::Store store = ipam::Store::Open(config.ipam.data_dir, intent.id.network);
  link::HeldAddresses held(host);
  const std::string& network = intent.id.network;
  // The directory goes with the last attachment of the network, and this one may be the next.
  if (store.IsNew() &&
      (host.records.HasNetwork(network) || !AreLeasesKnown(network, config.ipam.data_dir))) {
    // The directory may have been lost while attachments are alive. Attachments without rules have
    // no elements, so no element shows that their addresses are in use.
    RestoreLeases(host, store, network, config.ipam.data_dir);
    LeaseHeldAddresses(host, store, config.ipam.ranges, held);
  }
  const ipam::Request wanted{
      .requested = config.ipam.requested,
      .previous = earlier ? AddressesOnly(earlier->ipam.leases)
                          : FindLeasesFromBefore(host, store, intent.id, config.ipam.data_dir),
      .is_in_use = InUse{host, intent, held},
      .owner = ipam::OwnerOf(intent.id)};
  const ipam::Allocation choice = ipam::Choose(store, config.ipam.ranges, wanted);
  if (choice.full_set) {
    return {.full_set = choice.full_set};
  }
  Acquired acquired = WithLeases(intent, choice.assignments, config);
  // Before the record is replaced: only the earlier record names the leases that are abandoned.
  ReleaseAbandoned(store, wanted.owner, wanted.previous, choice.assignments);
  // The record before its leases: if this process is killed in between, the next ADD or DEL reads
  // in the record which leases to release.
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

// Removes stale attachments from a full pool, and tries again. This reads all records of the
// network. Only one command does so at a time: if two looked at the same stale attachment, the
// second would find it locked or already gone, and report a full pool. Each command therefore first
// tries again, because the command before it may have freed an address.
Attempt TryAcquireFromFull(state::Host& host,
                           const config::Config& config,
                           const state::Record& intent,
                           const std::optional<state::Record>& earlier) {
  const std::string& network = intent.id.network;
  const FileLock one_at_a_time = host.records.LockPool(network);
  Attempt attempt = TryAcquire(host, config, intent, earlier);
  if (attempt.full_set) {
    Collect(host, {.network = network, .data_dir = config.ipam.data_dir}, Mode::kRepair);
    attempt = TryAcquire(host, config, intent, earlier);
  }
  return attempt;
}

Acquired AcquireLeases(state::Host& host,
                       const config::Config& config,
                       const state::Record& intent,
                       const std::optional<state::Record>& earlier) {
  for (const Ip& address : config.ipam.requested) {
    RequireFree(host, config.ipam.data_dir, address, intent.id);
    if (!address.is_ipv4()) {
      // The DEL of the former owner leaves the flows of an IPv6 address in a large range
      // (rules/stale_conntrack.h).
      rules::DeleteStaleConntrackOf(host, address);
    }
  }
  // Only the earlier record says where its leases are, and TryAcquire() replaces that record.
  if (earlier && earlier->ipam.data_dir != intent.ipam.data_dir) {
    ReleaseAddresses(*earlier);
  }
  Attempt attempt = TryAcquire(host, config, intent, earlier);
  if (attempt.full_set) {
    attempt = TryAcquireFromFull(host, config, intent, earlier);
  }
  if (attempt.full_set) {
    throw Error(
        Code::kPoolExhausted,
        Format("no free address in network '{}'", intent.id.network),
        Format("every address of {} is leased or reserved in '{}/{}', and no lease is stale",
               Describe(config.ipam.ranges[*attempt.full_set]),
               config.ipam.data_dir,
               intent.id.network));
  }
  return std::move(attempt.acquired);
}

// Fills in each gateway that the plugin does not name: the subnet's first address, as the reference
// bridge plugin does.
cni::Result WithGateways(cni::Result result) {
  for (cni::IpConfig& ip : result.ips) {
    ip.gateway = ip.gateway.value_or(ip.address.Network().Plus(1));
  }
  return result;
}

}  // namespace

Acquired WithAddresses(state::Record intent, cni::Result result, const config::Config& config) {
  intent.ipam.default_routes = state::Record::DefaultRoutes::Of(result.routes);
  for (const cni::IpConfig& ip : result.ips) {
    intent.ipam.addresses.push_back(ip.address);
    if (config.link.is_gateway && ip.gateway) {
      intent.link.gateways.push_back({*ip.gateway, ip.address.prefix_length});
    }
    if (config.link.is_default_gateway && ip.gateway) {
      intent.ipam.default_routes.Add(ip.gateway->family());
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
  if (earlier && !earlier->ipam.delegated && config.ipam.type != cni::kHostLocal) {
    ReleaseAddresses(*earlier);
  }
  if (config.ipam.type == cni::kHostLocal) {
    return AcquireLeases(host, config, intent, earlier);
  }
  intent.ipam.delegated = cni::FindDelegatedIpam(request, config.ipam.type);
  if (intent.ipam.delegated) {
    // The link is made before the address is known, so no MAC can be derived from the address.
    intent.link.mac = intent.ContainerMac();
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
  // CNI requires DEL of a delegated plugin also after its ADD has failed.
  undo.Then("release the addresses", [record] { ReleaseAddresses(record); });
}

}  // namespace nomad_bridge::attachment
