#include "plugin/attachment/acquire_addresses.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/undo.h"
#include "firewall/address_policy.h"
#include "ipam/allocator.h"
#include "ipam/store.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/reclaim.h"
#include "plugin/cni/delegate.h"
#include "plugin/link/liveness.h"

namespace nomad_bridge::attachment {
namespace {

void SetAddresses(state::Record& record,
                  const std::vector<ipam::Assignment>& assignments,
                  const config::Config& config) {
  record.ipam.leases.clear();
  record.link.gateways.clear();
  for (const ipam::Assignment& assignment : assignments) {
    record.ipam.leases.push_back(assignment.address);
    if (config.link.is_gateway) {
      record.link.gateways.push_back({assignment.gateway, assignment.address.prefix_length});
    }
  }
  record.ipam.addresses = record.ipam.leases;
  record.rules.forward_hook.ipv6 = record.HasIpv6();
  record.rules.ports = portmap::Resolve(config.rules.ports, AddressesOnly(record.ipam.addresses));
}

// Who lives with `address` although nobody has leased it here; the kernel knows.
std::optional<state::Record> FindOwner(state::Host& host,
                                       const Ip& address,
                                       const AttachmentId& except) {
  const std::optional<nft::Element> member = firewall::FindAddress(host.nft, address);
  std::optional<state::Record> owner =
      member ? host.records.FindOwner(member->owner()) : std::nullopt;
  return owner && owner->id != except && link::IsAlive(host, *owner) ? std::move(owner)
                                                                     : std::nullopt;
}

// Whether one of `assignments` cannot be had, so that the choice has to be made again: its lease was
// lost, and is put back; or it is leased in another network of the same subnet on the same bridge,
// and is avoided. (With another bridge between them it would be a conflict, which comes to light.)
bool HasOwner(state::Host& host,
              ipam::Store& store,
              const std::vector<ipam::Assignment>& assignments,
              const state::Record& record,
              ipam::Request& wanted) {
  for (const ipam::Assignment& assignment : assignments) {
    const Ip& address = assignment.address.address;
    const std::optional<state::Record> owner = FindOwner(host, address, record.id);
    if (!owner) {
      continue;
    }
    const bool is_same_network = owner->id.network == record.id.network;
    if (is_same_network && store.Reserve(address, OwnerOf(owner->id))) {
      LogLine("put back the lost lease of ",
              address,
              " for container ",
              Quoted(owner->id.container_id));
      return true;
    }
    const bool is_wish = std::find(wanted.requested.begin(), wanted.requested.end(), address) !=
                         wanted.requested.end();
    if (!is_same_network && owner->link.gateway_ifname == record.link.gateway_ifname && !is_wish) {
      wanted.avoided.push_back(address);
      return true;
    }
  }
  return false;
}

std::optional<ipam::LeaseOwner> FindHolder(const config::IpamConfig& config,
                                           const std::string& network,
                                           const Ip& address) {
  const std::optional<ipam::Store> store = ipam::Store::OpenIfExists(config.data_dir, network);
  return store ? store->FindOwner(address) : std::nullopt;
}

// A requested address that somebody living has is an error that names them; the dead give it back.
void RequireFree(state::Host& host,
                 const config::IpamConfig& config,
                 const Ip& address,
                 const AttachmentId& id) {
  const std::optional<ipam::LeaseOwner> holder = FindHolder(config, id.network, address);
  if (!holder || holder->Matches(OwnerOf(id))) {
    return;
  }
  const AttachmentId owner{id.network, holder->container_id, holder->ifname};
  if (!ReclaimIfStale(host, owner)) {
    const std::optional<state::Record> record = host.records.Find(owner);
    throw Error(Code::kConflict,
                Cat("address ",
                    address,
                    " is taken by ",
                    cni::NameOwner(record ? record->labels : cni::Labels{}, owner.container_id)),
                Cat("network ",
                    Quoted(owner.network),
                    ", container ",
                    Quoted(owner.container_id),
                    ", interface ",
                    Quoted(owner.ifname)));
  }
}

// What an earlier ADD had in this store and this one does not. Called while the old record still
// stands: were we killed after the new one is written, nobody would know of these leases any more.
void ReleaseAbandoned(ipam::Store& store,
                      const state::Record& earlier,
                      const std::vector<ipam::Assignment>& assignments) {
  for (const Cidr& cidr : earlier.ipam.leases) {
    const bool kept = std::any_of(
        assignments.begin(), assignments.end(), [&](const ipam::Assignment& assignment) {
          return assignment.address.address == cidr.address;
        });
    if (!kept) {
      store.Release(cidr.address, OwnerOf(earlier.id));
    }
  }
}

// What was chosen is recorded and taken.
ipam::Allocation TryAcquire(state::Host& host,
                            const config::Config& config,
                            state::Record& record,
                            const std::optional<state::Record>& earlier) {
  ipam::Store store = ipam::Store::Open(config.ipam.data_dir, record.id.network);
  ipam::Request wanted{
      .requested = config.ipam.requested,
      .previous = earlier ? AddressesOnly(earlier->ipam.leases) : std::vector<Ip>{},
      .owner = OwnerOf(record.id)};
  ipam::Allocation choice;
  do {
    choice = ipam::Choose(store, config.ipam.ranges, wanted);
  } while (!choice.full_set && HasOwner(host, store, choice.assignments, record, wanted));
  if (choice.full_set) {
    return choice;
  }
  SetAddresses(record, choice.assignments, config);
  if (earlier) {
    ReleaseAbandoned(store, *earlier, choice.assignments);
  }
  host.records.Write(record);
  try {
    ipam::Reserve(store, choice.assignments, wanted.owner);
  } catch (const Error&) {
    host.records.EnsureGone(record.id);
    throw;
  }
  return choice;
}

std::string Describe(const ipam::RangeSet& set) {
  std::string text;
  for (const ipam::Range& range : set) {
    text += Cat(text.empty() ? "" : ", ", range.first, "-", range.last);
  }
  return text;
}

cni::Result AcquireLeases(state::Host& host,
                          const config::Config& config,
                          state::Record& record,
                          const std::optional<state::Record>& earlier) {
  for (const Ip& address : config.ipam.requested) {
    RequireFree(host, config.ipam, address, record.id);
  }
  if (earlier && earlier->ipam.data_dir != record.ipam.data_dir) {
    ReleaseAddresses(*earlier);
  }
  ipam::Allocation acquired = TryAcquire(host, config, record, earlier);
  if (acquired.full_set && ReclaimStale(host, record.id.network, config.ipam.data_dir) > 0) {
    acquired = TryAcquire(host, config, record, earlier);
  }
  if (acquired.full_set) {
    throw Error(Code::kPoolExhausted,
                Cat("no free address in network ", Quoted(record.id.network)),
                Cat("every address of ",
                    Describe(config.ipam.ranges[*acquired.full_set]),
                    " is leased in ",
                    Quoted(Cat(config.ipam.data_dir, '/', record.id.network)),
                    ", and none of them to a container that is gone"));
  }
  cni::Result result{.routes = config.ipam.routes, .dns = config.ipam.dns};
  for (const ipam::Assignment& assignment : acquired.assignments) {
    result.ips.push_back({.address = assignment.address, .gateway = assignment.gateway});
  }
  return result;
}

// As in the reference bridge plugin, a gateway that the giver does not name is the subnet's first
// address.
void SetGiven(cni::Result& given, const config::Config& config, state::Record& record) {
  for (cni::IpConfig& ip : given.ips) {
    record.ipam.addresses.push_back(ip.address);
    if (config.link.is_gateway) {
      ip.gateway = ip.gateway.value_or(ip.address.Network().Plus(1));
      record.link.gateways.push_back({*ip.gateway, ip.address.prefix_length});
    }
  }
  record.rules.forward_hook.ipv6 = record.HasIpv6();
  record.rules.ports = portmap::Resolve(config.rules.ports, AddressesOnly(record.ipam.addresses));
}

// The record comes first here too: whom to ask is known, if not yet for what.
cni::Result AskForAddresses(state::Host& host,
                            const cni::Request& request,
                            const config::Config& config,
                            state::Record& record) {
  Undo undo;
  undo.Then("remove the record", [&] { host.records.EnsureGone(record.id); });
  // The specification wants its DEL also if its ADD has failed.
  undo.Then("give back the addresses", [&] { ReleaseAddresses(record); });
  host.records.Write(record);
  const std::string answer =
      cni::InvokeIpam(*record.ipam.delegated, cni::Verb::kAdd, record.id, record.netns_path);
  cni::Result given = cni::ParseDelegated(*record.ipam.delegated, answer, request.cni_version);
  SetGiven(given, config, record);
  host.records.Write(record);
  undo.Keep();
  return given;
}

}  // namespace

cni::Result AcquireAddresses(state::Host& host,
                             const cni::Request& request,
                             const config::Config& config,
                             state::Record& record,
                             const std::optional<state::Record>& earlier) {
  if (earlier && (earlier->ipam.delegated || config.ipam.type != cni::kHostLocal)) {
    ReleaseAddresses(*earlier);
  }
  if (config.ipam.type == cni::kHostLocal) {
    return AcquireLeases(host, config, record, earlier);
  }
  record.ipam.delegated = cni::FindDelegatedIpam(request, config.ipam.type);
  if (record.ipam.delegated) {
    return AskForAddresses(host, request, config, record);
  }
  host.records.Write(record);
  return {};
}

}  // namespace nomad_bridge::attachment
