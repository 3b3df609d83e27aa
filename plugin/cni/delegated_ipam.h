// Who gives an attachment its addresses if not we do: an IPAM plugin of somebody else.
//
// Errors  those of delegate.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/attachment_id.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::cni {

// ipam.type of the leases that are made in this process.
constexpr std::string_view kHostLocal = "host-local";

// With all that it takes to ask again, also when another command has to: a record keeps it.
struct DelegatedIpam {
  std::string type;
  std::string cni_path;
  std::string args;    // CNI_ARGS
  std::string config;  // its stdin, byte for byte
};

// Whom `request` speaks of by `ipam_type`; nullopt if that is ourselves, or nobody.
[[nodiscard]] std::optional<DelegatedIpam> FindDelegatedIpam(const Request& request,
                                                             const std::string& ipam_type);

// What it answers on stdout. `id` and `netns_path` are those that it is about.
std::string InvokeIpam(const DelegatedIpam& delegated_ipam,
                       Verb verb,
                       const AttachmentId& id,
                       const std::string& netns_path);

}  // namespace nomad_bridge::cni
