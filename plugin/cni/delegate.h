// An IPAM plugin that is not ours (static, dhcp, anybody's), run in our place for one verb.
//
// Shapes   Its stdin: the bytes that came on ours. Its environment: ours, with CNI_COMMAND and the
//          attachment's variables replaced. Its stdout: a result of any version on ADD, or an
//          error. Its stderr is copied to ours, whether it succeeds or fails.
// Found    in the directories of CNI_PATH, in their order: the first regular file named as the
//          plugin is. A plugin's name is no path.
// Runs     in the namespace we are in, which is the host's: we are inside a container only for the
//          length of an InNetns(), and Go's skeleton refuses to have worked in the container's.
//          Descriptors, signals and its end: base/subprocess.h.
// Errors   Its own error as it is: code, msg, details. Else kInvalidConfig for a name that is a
//          path or empty, a plugin that is not there, or this program itself; kInvalidEnvironment
//          without any directory; kIo if it cannot be started; kTryAgain if it does not answer in
//          time; kDelegate if it fails in any other way, or its answer cannot be used.
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

// ipam.type of the leases that are made in this process.
constexpr std::string_view kHostLocal = "host-local";

// All that it takes to run it, also for a later command: a record keeps it.
struct DelegatedIpam {
  std::string type;      // ipam.type
  std::string cni_path;  // CNI_PATH: directories with ':' between them
  std::string args;      // CNI_ARGS
  std::string config;    // its stdin, byte for byte
};

// nullopt if `ipam_type` is host-local, or empty.
[[nodiscard]] std::optional<DelegatedIpam> FindDelegatedIpam(const Request& request,
                                                             const std::string& ipam_type);

// `recorded`, with the request's config if that names the same plugin: it may have been put right.
// Without CNI_ARGS in the request those of ADD stay: Nomad's DEL sends none, and the specification
// gives DEL the same parameters as ADD.
[[nodiscard]] DelegatedIpam WithConfigOf(const Request& request,
                                         const std::string& ipam_type,
                                         DelegatedIpam recorded);

// Runs it for the attachment `id`, which need not be the one we were started for, and returns its
// stdout. By default it may take its time: an address from a DHCP server does.
std::string InvokeIpam(const DelegatedIpam& ipam,
                       Verb verb,
                       const AttachmentId& id,
                       const std::string& netns_path,
                       std::chrono::milliseconds timeout = std::chrono::seconds(60));

// The same for the request's own attachment; does nothing if there is no such plugin.
void InvokeIpamOf(const Request& request, const std::string& ipam_type, Verb verb);

// The answer to an ADD as a result of today; a version it does not name is the config's. Has at
// least one address, and no interfaces.
[[nodiscard]] Result ParseDelegated(const DelegatedIpam& ipam,
                                    std::string_view answer,
                                    std::string_view config_version);

}  // namespace nomad_bridge::cni
