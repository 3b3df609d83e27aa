// host-local: addresses for an interface that another plugin makes.
#include "base/error.h"
#include "base/text.h"
#include "ipam/store.h"
#include "plugin/addresses.h"
#include "plugin/checking.h"
#include "plugin/failures.h"
#include "plugin/guest.h"
#include "plugin/teardown.h"
#include "plugin/verbs.h"

namespace nomad_bridge {

void AddLeases(const Request& request, const Name& name, int out) {
  const Config config = ParseConfig(request, name);
  Host host = Host::Open();
  // Looked at for one reason only: a full pool asks who is still alive.
  const std::optional<Guest> guest = FindGuest(request, host);
  const RangeLock mine = host.records.Lock(request.who);
  const std::optional<Record> earlier = host.records.Find(request.who);
  Undo undo;
  RemoveEarlier(host, request.who, earlier, config.ipam.data_dir, undo);

  Record record{.who = request.who,
                .parts = name.parts,
                .labels = config.labels,
                .netns_path = request.netns_path,
                .netns = guest ? guest->netns.id() : NetnsId{},
                .data_dir = config.ipam.data_dir,
                .policy = {.admin_chain = {}}};
  const Result result = AcquireAddresses(host, request, config, record, earlier);
  undo.Then("remove the record", [&host, who = request.who] { host.records.EnsureGone(who); });
  undo.Then("release the addresses", [record] { ReleaseAddresses(record); });

  Print(result, request.cni_version, out);
  undo.Keep();
}

void DelLeases(const Request& request, const Name& name) {
  Host host = Host::Open();
  static_cast<void>(FindGuest(request, host));  // the host's own is refused
  const RangeLock mine = host.records.Lock(request.who);

  Failures failures;
  const std::optional<Record> record = host.records.Find(request.who);
  if (record) {
    failures.Add(TearDown(host, *record));
  }
  // Opens every lease, so only for what another host-local has given.
  if (!record || !record->Has(Part::kAddress)) {
    const Whereabouts whereabouts = FindWhereabouts(request.config, name.defaults);
    failures.Try("the leases", [&] { ReleaseAddressesOf(request.who, whereabouts.data_dir); });
  }
  failures.ThrowIfAny(
      Cat("container ", Quoted(request.who.container_id), " still has leased addresses"));
}

void CheckLeases(const Request& request, const Name& name) {
  const Config config = ParseConfig(request, name);
  const std::optional<ipam::Store> store =
      ipam::Store::Find(config.ipam.data_dir, request.who.network);
  const ipam::Holder holder{request.who.container_id, request.who.ifname};
  if (store) {
    for (const ipam::Lease& lease : store->Leases()) {
      if (lease.holder.Covers(holder)) {
        return;
      }
    }
  }
  // The reference plugin's words.
  throw Error(
      Code::kChanged,
      Cat("host-local: Failed to find address added by container ", request.who.container_id),
      Cat("no lease in ", Quoted(Cat(config.ipam.data_dir, '/', request.who.network)), " is its"));
}

}  // namespace nomad_bridge
