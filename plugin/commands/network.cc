// GC and STATUS, the verbs for a network.
#include <array>

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/collect.h"
#include "plugin/cni/delegate.h"
#include "plugin/cni/error_list.h"
#include "plugin/commands/commands.h"
#include "plugin/config/config.h"
#include "plugin/state/host.h"

namespace nomad_bridge::commands {
namespace {

void RequireCapability(int capability, const char* name, const char* purpose) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  const bool is_known = ::syscall(SYS_capget, &header, sets.data()) == 0;
  const auto& set = sets.at(static_cast<std::size_t>(CAP_TO_INDEX(capability)));
  if (!is_known || (set.effective & CAP_TO_MASK(capability)) == 0) {
    throw Error(
        Code::kUnavailable, Cat("nomad-bridge lacks ", name), Cat("it is needed to ", purpose));
  }
}

// Runs `probe`. If it throws, throws kUnavailable, as STATUS must.
template <typename Probe>
void Require(const std::string& what, Probe probe) {
  try {
    probe();
  } catch (const Error& error) {
    throw Error(Code::kUnavailable, what, error.what());
  }
}

// Creates the directory, as ADD would. Throws if we cannot write to it.
void RequireUsable(const std::string& directory) {
  EnsureDirectory(directory);
  RequireWritable(directory);
}

}  // namespace

// Removes attachments with all their parts, even if GC runs for a type that provides only some of
// them.
void Gc(const cni::Request& request, const cni::PluginType& type) {
  const std::optional<std::set<AttachmentId>> valid = cni::FindValidAttachments(request);
  const config::LenientConfig lenient = config::ParseLenient({*request.config, ""}, type.defaults);
  state::Host host = state::Host::Open();
  attachment::Collection collection{.network = request.id.network, .data_dir = lenient.data_dir};
  if (!valid) {
    const attachment::ReconcileReport report = attachment::Collect(host, collection, Mode::kRepair);
    for (const Finding& each : report.failed) {
      LogLine("{}, ignoring", each.text);
    }
    return;
  }

  cni::ErrorList failures;
  if (type.Provides(cni::Part::kAddress)) {
    failures.Try("addresses",
                 [&] { cni::InvokeIpamOf(request, lenient.ipam_type, cni::Verb::kGc); });
  }
  collection.valid = valid;
  collection.leases = type.Provides(cni::Part::kAddress);
  collection.rules = type.ProvidesRules();
  if (type.Provides(cni::Part::kLink)) {
    collection.bridge = lenient.bridge;
  }
  const attachment::ReconcileReport outcome = attachment::Collect(host, collection, Mode::kRepair);
  for (const Finding& each : outcome.failed) {
    failures.Add({each.text});
  }
  failures.ThrowIfAny(
      Format("network '{}' still has parts of attachments that are not valid", request.id.network));
}

// A full pool does not make STATUS fail: Nomad also runs STATUS before every DEL, and would then
// never run DEL.
void Status(const cni::Request& request, const cni::PluginType& type) {
  const config::LenientConfig lenient = config::ParseLenient({*request.config, ""}, type.defaults);
  if (type.Provides(cni::Part::kLink) || type.ProvidesRules() ||
      type.Provides(cni::Part::kLoopback)) {
    RequireCapability(CAP_NET_ADMIN, "CAP_NET_ADMIN", "make links and rules");
    RequireCapability(CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "enter network namespaces");
  }
  if (type.ProvidesRules()) {
    Require("the kernel has no nf_tables for us", [] {
      state::Host host = state::Host::Open();
      static_cast<void>(host.nft.Generation());
    });
  }
  if (!type.Provides(cni::Part::kLoopback) || type.ProvidesRules()) {
    Require("records cannot be written", [] { RequireUsable(state::kStateDirectory); });
  }
  if (!type.Provides(cni::Part::kAddress)) {
    return;
  }
  if (lenient.ipam_type == cni::kHostLocal) {
    Require("the key 'ipam.dataDir' names a directory that cannot be written",
            [&] { RequireUsable(lenient.data_dir); });
  } else {
    cni::InvokeIpamOf(request, lenient.ipam_type, cni::Verb::kStatus);
  }
}

}  // namespace nomad_bridge::commands
