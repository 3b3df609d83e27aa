// Runs another IPAM plugin (static, dhcp or any other) for one verb, instead of our own IPAM.
//
// Shapes   Its stdin: the bytes of our stdin. Its environment: ours, except CNI_COMMAND and the
//          attachment's variables. Its stdout: on ADD a result of any version, or an error. Its
//          stderr is copied to ours, whether it succeeds or fails.
// Found    In the directories of CNI_PATH, in their order: the first regular file that has the
//          plugin's name. The name is no path.
// Runs     In our current namespace, which is the host's: we enter a container's namespace only
//          during an InNetns(), and Go's skeleton fails if it ran in the container's namespace.
//          Descriptors, signals and its end: base/subprocess.h.
// Errors   The plugin's own error unchanged: code, msg, details. Otherwise kInvalidConfig if the
//          name is a path or empty, or if the plugin does not exist or is this program itself;
//          kInvalidEnvironment if CNI_PATH has no directory; kIo if the plugin cannot be started;
//          kTryAgain if it does not answer in time; kDelegate if it fails in any other way, or its
//          answer cannot be used.
// Source   CNI specification 1.1.0, "Section 4: Plugin Delegation"; Go's pkg/invoke.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/attachment_id.h"
#include "plugin/cni/request.h"
#include "plugin/cni/result.h"

namespace nomad_bridge::cni {

// The ipam.type for which this process itself makes the leases.
constexpr std::string_view kHostLocal = "host-local";

// Everything needed to run the plugin, also for a later command: a record keeps it.
struct DelegatedIpam {
  std::string type;      // ipam.type
  std::string cni_path;  // CNI_PATH: directories with ':' between them
  std::string args;      // CNI_ARGS
  std::string config;    // its stdin, byte for byte
};

// Returns nullopt if `ipam_type` is host-local or empty.
[[nodiscard]] std::optional<DelegatedIpam> FindDelegatedIpam(const Request& request,
                                                             const std::string& ipam_type);

// Returns `recorded`, but with the request's config if that names the same plugin, because somebody
// may have corrected the config. If the request has no CNI_ARGS, keeps those of ADD: Nomad's DEL
// sends none, although the specification gives DEL the same parameters as ADD.
[[nodiscard]] DelegatedIpam WithConfigOf(const Request& request,
                                         const std::string& ipam_type,
                                         DelegatedIpam recorded);

// Runs the plugin for the attachment `id`, which need not be the request's attachment. Returns its
// stdout. The default timeout is long, because a DHCP server may take long to assign an address.
std::string InvokeIpam(const DelegatedIpam& ipam,
                       Verb verb,
                       const AttachmentId& id,
                       const std::string& netns_path,
                       std::chrono::milliseconds timeout = std::chrono::seconds(60));

// Does the same for the request's own attachment. Does nothing if no plugin is delegated to.
void InvokeIpamOf(const Request& request, const std::string& ipam_type, Verb verb);

// Converts the answer to an ADD to a current result. If the answer names no version, it has the
// config's version. The result has at least one address, and no interfaces.
[[nodiscard]] Result ParseDelegated(const DelegatedIpam& ipam,
                                    std::string_view answer,
                                    std::string_view config_version);

}  // namespace nomad_bridge::cni
