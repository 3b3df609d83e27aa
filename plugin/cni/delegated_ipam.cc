#include "plugin/cni/delegated_ipam.h"

#include "plugin/cni/delegate.h"

namespace nomad_bridge::cni {

std::optional<DelegatedIpam> FindDelegatedIpam(const Request& request,
                                               const std::string& ipam_type) {
  if (ipam_type.empty() || ipam_type == kHostLocal) {
    return std::nullopt;
  }
  return DelegatedIpam{.type = ipam_type,
                       .cni_path = request.cni_path,
                       .args = request.args,
                       .config = request.config_text};
}

std::string InvokeIpam(const DelegatedIpam& delegated_ipam,
                       Verb verb,
                       const AttachmentId& id,
                       const std::string& netns_path) {
  return RunDelegate({.type = delegated_ipam.type,
                      .cni_path = delegated_ipam.cni_path,
                      .config = delegated_ipam.config},
                     verb,
                     {{"CNI_CONTAINERID", id.container_id},
                      {"CNI_NETNS", netns_path},
                      {"CNI_IFNAME", id.ifname},
                      {"CNI_ARGS", delegated_ipam.args},
                      {"CNI_PATH", delegated_ipam.cni_path}});
}

}  // namespace nomad_bridge::cni
