// host-local: addresses for an interface that another plugin makes.
#include "base/error.h"
#include "base/text.h"
#include "base/undo.h"
#include "plugin/attachment/acquire_addresses.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/remove.h"
#include "plugin/commands/commands.h"
#include "plugin/commands/session.h"
#include "plugin/link/container.h"

namespace nomad_bridge::commands {

void AddLeases(const cni::Request& request, const cni::PluginType& type, int out) {
  const config::Config config = config::ParseConfig(request, type);
  state::Host host = state::Host::Open();
  // The record stores the namespace, so that a later ADD on a full pool can see if it is alive.
  const std::optional<link::Container> container = link::FindContainer(request, host.netns);
  FileLock own = host.records.Lock(request.id);
  const std::optional<state::Record> earlier = host.records.FindOwn(request.id);
  Undo undo;
  RemoveEarlier(host, request.id, earlier, config.ipam.data_dir, undo);
  const state::Record intent =
      state::IntentOf(request, type, config, container ? container->id : netlink::NetnsId());
  const attachment::Acquired acquired =
      attachment::AcquireAddresses(host, request, config, intent, earlier);
  attachment::UndoAcquired(host, acquired.record, undo);
  const state::Record made = acquired.record.Finished();
  host.records.Write(made);
  undo.Keep();
  const auto remove = [&] { attachment::UndoParts(host, made, type.parts); };
  Answer(host, std::move(own), made, remove, [&] {
    cni::Print(acquired.result, request.cni_version, out);
  });
}

void DelLeases(const cni::Request& request, const cni::PluginType& type) {
  Removal del = BeginRemoval(request);
  if (del.record) {
    del.failures.Add(attachment::Remove(del.host, *del.record, del.record->AllParts()));
  }
  const bool is_recorded = del.record && del.record->Has(cni::Part::kAddress);
  const std::string data_dir =
      is_recorded ? del.record->ipam.data_dir
                  : config::ParseLenient({*request.config, ""}, type.defaults).data_dir;
  // This opens every lease, so it runs only for leases of the reference host-local, which has no
  // records.
  if (!is_recorded) {
    del.failures.Try("the leases", [&] {
      attachment::ReleaseLeases(
          request.id, data_dir, attachment::FindLeasesOf(request.id, data_dir));
    });
  }
  del.failures.Try("the directory of the leases", [&] {
    attachment::EnsureUnusedDirectoryGone(del.host, request.id.network, data_dir);
  });
  del.failures.ThrowIfAny(
      Format("container '{}' still has leased addresses", request.id.container_id));
}

void CheckLeases(const cni::Request& request, const cni::PluginType& type) {
  const config::Config config = config::ParseConfig(request, type);
  if (!attachment::FindLeasesOf(request.id, config.ipam.data_dir).empty()) {
    return;
  }
  // This is the message of the reference plugin.
  throw Error(
      Code::kChanged,
      Cat("host-local: Failed to find address added by container ", request.id.container_id),
      Format("no lease in '{}/{}' names it", config.ipam.data_dir, request.id.network));
}

}  // namespace nomad_bridge::commands
