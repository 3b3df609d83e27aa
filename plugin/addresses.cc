#include "plugin/addresses.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "firewall/members.h"
#include "ipam/allocator.h"
#include "ipam/store.h"
#include "plugin/delegate.h"
#include "plugin/failures.h"
#include "plugin/living.h"
#include "plugin/log.h"
#include "plugin/undo.h"

namespace nomad_bridge {
namespace {

ipam::Holder HolderOf(const Attachment& who) {
  return {who.container_id, who.ifname};
}

void SetAddresses(Record& record,
                  const std::vector<ipam::Assignment>& assignments,
                  const Config& config) {
  record.leases.clear();
  record.gateways.clear();
  for (const ipam::Assignment& assignment : assignments) {
    record.leases.push_back(assignment.address);
    if (config.link.is_gateway) {
      record.gateways.push_back({assignment.gateway, assignment.address.prefix_length});
    }
  }
  record.addresses = record.leases;
  record.policy.ipv6 = record.HasIpv6();
  record.ports = portmap::Resolve(config.rules.ports, AddressesOnly(record.addresses));
}

// Who lives with `address` although nobody has leased it here; the kernel knows.
std::optional<Record> FindOwner(Host& host, const Ip& address, const Attachment& except) {
  const std::optional<NftElement> member = firewall::FindMember(host.nft, address);
  std::optional<Record> owner = member ? host.records.FindOwner(member->owner()) : std::nullopt;
  return owner && owner->who != except && IsAlive(host, *owner) ? std::move(owner) : std::nullopt;
}

// Whether one of `assignments` cannot be had, so that the choice has to be made again: its lease was
// lost, and is put back; or it is leased in another network of the same subnet on the same bridge,
// and is avoided. (With another bridge between them it would be a conflict, which comes to light.)
bool HasOwner(Host& host,
              ipam::Store& store,
              const std::vector<ipam::Assignment>& assignments,
              const Record& record,
              ipam::Wishes& wishes) {
  for (const ipam::Assignment& assignment : assignments) {
    const Ip& address = assignment.address.address;
    const std::optional<Record> owner = FindOwner(host, address, record.who);
    if (!owner) {
      continue;
    }
    const bool is_same_network = owner->who.network == record.who.network;
    if (is_same_network && store.Reserve(address, HolderOf(owner->who))) {
      Say("put back the lost lease of ",
          address,
          " for container ",
          Quoted(owner->who.container_id));
      return true;
    }
    const bool is_wish = std::find(wishes.requested.begin(), wishes.requested.end(), address) !=
                         wishes.requested.end();
    if (!is_same_network && owner->gate == record.gate && !is_wish) {
      wishes.avoided.push_back(address);
      return true;
    }
  }
  return false;
}

std::optional<ipam::Holder> FindHolder(const IpamConfig& config,
                                       const std::string& network,
                                       const Ip& address) {
  const std::optional<ipam::Store> store = ipam::Store::Find(config.data_dir, network);
  return store ? store->HolderOf(address) : std::nullopt;
}

// A requested address that somebody living has is an error that names them; the dead give it back.
void RequireFree(Host& host, const IpamConfig& config, const Ip& address, const Attachment& who) {
  const std::optional<ipam::Holder> holder = FindHolder(config, who.network, address);
  if (!holder || holder->Covers(HolderOf(who))) {
    return;
  }
  const Attachment owner{who.network, holder->container_id, holder->ifname};
  if (!BuryIfDead(host, owner)) {
    const std::optional<Record> record = host.records.Find(owner);
    throw Error(Code::kConflict,
                Cat("address ",
                    address,
                    " is taken by ",
                    NameOwner(record ? record->labels : Labels{}, owner.container_id)),
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
                      const Record& earlier,
                      const std::vector<ipam::Assignment>& assignments) {
  for (const Cidr& cidr : earlier.leases) {
    const bool kept = std::any_of(
        assignments.begin(), assignments.end(), [&](const ipam::Assignment& assignment) {
          return assignment.address.address == cidr.address;
        });
    if (!kept) {
      store.Release(cidr.address, HolderOf(earlier.who));
    }
  }
}

// What was chosen is recorded and taken.
ipam::Choice TryAcquire(Host& host,
                        const Config& config,
                        Record& record,
                        const std::optional<Record>& earlier) {
  ipam::Store store = ipam::Store::Open(config.ipam.data_dir, record.who.network);
  ipam::Wishes wishes{.requested = config.ipam.requested,
                      .previous = earlier ? AddressesOnly(earlier->leases) : std::vector<Ip>{},
                      .holder = HolderOf(record.who)};
  ipam::Choice choice;
  do {
    choice = ipam::Choose(store, config.ipam.ranges, wishes);
  } while (!choice.full_set && HasOwner(host, store, choice.assignments, record, wishes));
  if (choice.full_set) {
    return choice;
  }
  SetAddresses(record, choice.assignments, config);
  if (earlier) {
    ReleaseAbandoned(store, *earlier, choice.assignments);
  }
  host.records.Write(record);
  try {
    ipam::Reserve(store, choice.assignments, wishes.holder);
  } catch (const Error&) {
    host.records.EnsureGone(record.who);
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

Result AcquireLeases(Host& host,
                     const Config& config,
                     Record& record,
                     const std::optional<Record>& earlier) {
  for (const Ip& address : config.ipam.requested) {
    RequireFree(host, config.ipam, address, record.who);
  }
  if (earlier && earlier->data_dir != record.data_dir) {
    ReleaseAddresses(*earlier);
  }
  ipam::Choice acquired = TryAcquire(host, config, record, earlier);
  if (acquired.full_set && BuryTheDead(host, record.who.network, config.ipam.data_dir) > 0) {
    acquired = TryAcquire(host, config, record, earlier);
  }
  if (acquired.full_set) {
    throw Error(Code::kPoolExhausted,
                Cat("no free address in network ", Quoted(record.who.network)),
                Cat("every address of ",
                    Describe(config.ipam.ranges[*acquired.full_set]),
                    " is leased in ",
                    Quoted(Cat(config.ipam.data_dir, '/', record.who.network)),
                    ", and none of them to a container that is gone"));
  }
  Result result{.routes = config.ipam.routes, .dns = config.ipam.dns};
  for (const ipam::Assignment& assignment : acquired.assignments) {
    result.ips.push_back({.address = assignment.address, .gateway = assignment.gateway});
  }
  return result;
}

// As in the reference bridge plugin, a gateway that the giver does not name is the subnet's first
// address.
void SetGiven(Result& given, const Config& config, Record& record) {
  for (IpConfig& ip : given.ips) {
    record.addresses.push_back(ip.address);
    if (config.link.is_gateway) {
      ip.gateway = ip.gateway.value_or(ip.address.Network().Plus(1));
      record.gateways.push_back({*ip.gateway, ip.address.prefix_length});
    }
  }
  record.policy.ipv6 = record.HasIpv6();
  record.ports = portmap::Resolve(config.rules.ports, AddressesOnly(record.addresses));
}

// The record comes first here too: whom to ask is known, if not yet for what.
Result AskForAddresses(Host& host, const Request& request, const Config& config, Record& record) {
  Undo undo;
  undo.Then("remove the record", [&] { host.records.EnsureGone(record.who); });
  // The specification wants its DEL also if its ADD has failed.
  undo.Then("give back the addresses", [&] { ReleaseAddresses(record); });
  host.records.Write(record);
  const std::string answer = Ask(*record.giver, Verb::kAdd, record.who, record.netns_path);
  Result given = ParseDelegated({.type = record.giver->type}, answer, request.cni_version);
  SetGiven(given, config, record);
  host.records.Write(record);
  undo.Keep();
  return given;
}

}  // namespace

Result AcquireAddresses(Host& host,
                        const Request& request,
                        const Config& config,
                        Record& record,
                        const std::optional<Record>& earlier) {
  if (earlier && (earlier->giver || config.ipam.type != kHostLocal)) {
    ReleaseAddresses(*earlier);
  }
  if (config.ipam.type == kHostLocal) {
    return AcquireLeases(host, config, record, earlier);
  }
  record.giver = FindGiver(request, config.ipam.type);
  if (record.giver) {
    return AskForAddresses(host, request, config, record);
  }
  host.records.Write(record);
  return {};
}

void ReleaseAddresses(const Record& record) {
  Failures failures;
  std::optional<ipam::Store> store =
      record.leases.empty() ? std::nullopt : ipam::Store::Find(record.data_dir, record.who.network);
  if (store) {
    for (const Cidr& cidr : record.leases) {
      failures.Try(Cat("the lease of ", cidr.address),
                   [&] { store->Release(cidr.address, HolderOf(record.who)); });
    }
  }
  failures.ThrowIfAny("not every lease could be given back");
  if (record.giver) {
    Ask(*record.giver, Verb::kDel, record.who, record.netns_path);
  }
}

std::vector<Ip> FindLeasesOf(const Attachment& who, const std::string& data_dir) {
  std::vector<Ip> addresses;
  if (const std::optional<ipam::Store> store = ipam::Store::Find(data_dir, who.network)) {
    for (const ipam::Lease& lease : store->Leases()) {
      if (lease.holder.Covers(HolderOf(who))) {
        addresses.push_back(lease.address);
      }
    }
  }
  return addresses;
}

void ReleaseAddressesOf(const Attachment& who, const std::string& data_dir) {
  std::optional<ipam::Store> store = ipam::Store::Find(data_dir, who.network);
  if (!store) {
    return;
  }
  for (const ipam::Lease& lease : store->Leases()) {
    if (lease.holder.Covers(HolderOf(who))) {
      store->Release(lease.address, lease.holder);
    }
  }
}

}  // namespace nomad_bridge
