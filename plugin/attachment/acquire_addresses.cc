#include "plugin/attachment/acquire_addresses.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "firewall/address_policy.h"
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

// Whether the kernel shows that an address is in use that no lease names: its lease was lost, or is
// in another directory. The same few round trips with any number of attachments of ours.
struct InUse {
  state::Host& host;
  const state::Record& intent;
  link::HeldAddresses& held;

  [[nodiscard]] bool operator()(const Ip& address) const {
    const std::optional<nft::Element> element = firewall::FindAddress(host.nft, address);
    return element ? IsOfALiveOwner(std::string(element->owner()), address)
                   : IsNeighbour(address) || takeover::IsAccepted(host.nft, address);
  }

  // Of a former attachment of ours, which had this MAC, the kernel may remember its address.
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
      // The record was lost, too. The owner's name is its host veth's; where another plugin made
      // the link, no link has that name.
      return owner.empty() || host.net.FindLink(owner) || held.Contains(address);
    }
    // Networks with different gateways must not share addresses: the commit of the rules refuses it
    // by name, so their addresses are not skipped here.
    const bool is_same_network = record->id.network == intent.id.network ||
                                 record->link.gateway_ifname == intent.link.gateway_ifname;
    return record->id != intent.id && is_same_network && link::IsAlive(host, *record);
  }
};

// Whether the lease predates the boot, or was another plugin's. Its time alone proves nothing: the
// clock may have been stepped since. So nobody must have the address, nor may the owner have a
// record of this boot.
bool IsOver(state::Host& host,
            const ipam::Store& store,
            const AttachmentId& owner,
            const Ip& address) {
  // A file that names no interface may be an operator's, who reserves the address.
  return !owner.ifname.empty() &&
         (store.FindOwner(address) == ipam::kLeasedElsewhere ||
          WasWrittenBeforeBoot(store, address)) &&
         !host.records.Find(owner) && !link::HeldAddresses(host).Contains(address);
}

// Releases the lease of a requested address if it is stale: its owner's record is stale, or the
// lease predates the boot. If a live attachment has it, throws an error that names that one.
void RequireFree(state::Host& host,
                 const std::string& data_dir,
                 const Ip& address,
                 const AttachmentId& id) {
  std::optional<ipam::LeaseOwner> owner;
  AttachmentId owner_id{.network = id.network};
  // The leases' lock is released before an attachment's is tried: that is the order of locks.
  if (std::optional<ipam::Store> store = ipam::Store::OpenIfExists(data_dir, id.network)) {
    owner = store->FindOwner(address);
    owner_id.container_id = owner ? owner->container_id : "";
    owner_id.ifname = owner ? owner->ifname : "";
    if (owner && IsOver(host, *store, owner_id, address)) {
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

// Releases those of `previous`, leases of an earlier ADD, that are not among `assignments`.
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

// Leases the addresses of other plugins' containers, whose leases are in another directory. A
// silent container shows in its namespace alone; to look into all of them is too slow for every
// ADD.
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

// Chooses, records and reserves, in this order; nothing if a range set is full.
struct Choice {
  Acquired acquired;
  std::optional<std::size_t> full_set;
};

Choice TryAcquire(state::Host& host,
                  const config::Config& config,
                  const state::Record& intent,
                  const std::optional<state::Record>& earlier) {
  ipam::Store store = ipam::Store::Open(config.ipam.data_dir, intent.id.network);
  link::HeldAddresses held(host);
  if (store.IsNew()) {
    // The directory may have been lost while attachments live, and not all of them have elements.
    RestoreLeases(host, store, intent.id.network, config.ipam.data_dir);
    LeaseHeldAddresses(host, store, config.ipam.ranges, held);
  }
  const ipam::Request wanted{
      .requested = config.ipam.requested,
      .previous = earlier ? AddressesOnly(earlier->ipam.leases) : std::vector<Ip>(),
      .is_in_use = InUse{host, intent, held},
      .owner = ipam::OwnerOf(intent.id)};
  const ipam::Allocation choice = ipam::Choose(store, config.ipam.ranges, wanted);
  if (choice.full_set) {
    return {.full_set = choice.full_set};
  }
  Acquired acquired = WithLeases(intent, choice.assignments, config);
  // The earlier record alone names the leases that are abandoned, so they go before it is replaced.
  ReleaseAbandoned(store, wanted.owner, wanted.previous, choice.assignments);
  // The record before its leases: if this is killed in between, the next ADD or DEL knows by the
  // record what to release.
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
// at a time: of two that look at the same stale attachment, the second would find it locked, or
// already gone, and say that nothing is free. So each tries first what the one before it has freed.
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
    RequireFree(host, config.ipam.data_dir, address, intent.id);
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
    throw Error(
        Code::kPoolExhausted,
        Format("no free address in network '{}'", intent.id.network),
        Format("every address of {} is leased or reserved in '{}/{}', and no lease is stale",
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
