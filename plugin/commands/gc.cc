#include "base/list.h"
#include "base/text.h"
#include "plugin/attachment/collect.h"
#include "plugin/attachment/reconcile.h"
#include "plugin/cni/delegate.h"
#include "plugin/cni/error_list.h"
#include "plugin/cni/request.h"
#include "plugin/commands/commands.h"
#include "plugin/config/config.h"
#include "plugin/state/host.h"

namespace nomad_bridge::commands {

// An attachment is removed whole, under whichever of our names GC is run.
void Gc(const cni::Request& request, const cni::PluginType& type) {
  const std::optional<std::set<AttachmentId>> valid = cni::FindValidAttachments(request);
  const config::LenientConfig lenient = config::ParseLenient({*request.config, ""}, type.defaults);
  state::Host host = state::Host::Open();
  attachment::Collection collection{.network = request.id.network, .data_dir = lenient.data_dir};
  if (!valid) {
    attachment::Collect(host, collection, Mode::kRepair);
    return;
  }

  cni::ErrorList failures;
  if (type.Provides(cni::Part::kAddress)) {
    failures.Try("addresses",
                 [&] { cni::InvokeIpamOf(request, lenient.ipam_type, cni::Verb::kGc); });
  }
  collection.valid = valid;
  collection.leases = type.Provides(cni::Part::kAddress);
  if (type.Provides(cni::Part::kLink)) {
    collection.bridge = lenient.bridge;
  }
  failures.Add(attachment::Collect(host, collection, Mode::kRepair).failed);
  if (type.ProvidesRules()) {
    failures.Try("stray rules", [&] {
      attachment::Reconcile(
          host, {.extent = attachment::Scope::Extent::kRules, .valid = *valid}, Mode::kRepair);
    });
  }
  failures.ThrowIfAny(
      Format("network '{}' still has parts of attachments that are not valid", request.id.network));
}

}  // namespace nomad_bridge::commands
