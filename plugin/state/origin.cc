#include "plugin/state/origin.h"

#include "base/file.h"

namespace nomad_bridge::state {

Origin OriginOf(const netlink::Netns& host) {
  std::string id = FindFile("/proc/sys/kernel/random/boot_id").value_or("unknown");
  id.erase(id.find_last_not_of(" \n") + 1);
  return {.boot_id = std::move(id), .netns = host.id()};
}

}  // namespace nomad_bridge::state
