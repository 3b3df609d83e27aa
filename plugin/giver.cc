#include "plugin/giver.h"

#include "plugin/config.h"
#include "plugin/delegate.h"

namespace nomad_bridge {

std::optional<Giver> FindGiver(const Request& request, const std::string& ipam_type) {
  if (ipam_type.empty() || ipam_type == kHostLocal) {
    return std::nullopt;
  }
  return Giver{.type = ipam_type,
               .cni_path = request.cni_path,
               .args = request.args,
               .config = request.config_text};
}

std::string Ask(const Giver& giver,
                Verb verb,
                const Attachment& who,
                const std::string& netns_path) {
  return RunDelegate({.type = giver.type, .cni_path = giver.cni_path, .config = giver.config},
                     verb,
                     {{"CNI_CONTAINERID", who.container_id},
                      {"CNI_NETNS", netns_path},
                      {"CNI_IFNAME", who.ifname},
                      {"CNI_ARGS", giver.args},
                      {"CNI_PATH", giver.cni_path}});
}

}  // namespace nomad_bridge
