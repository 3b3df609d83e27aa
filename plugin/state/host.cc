#include "plugin/state/host.h"

#include <utility>

#include "base/file.h"

namespace nomad_bridge::state {
namespace {

// This boot, and the namespace `host`.
Origin OriginOf(const netlink::Netns& host) {
  std::string id = FindFile("/proc/sys/kernel/random/boot_id").value_or("unknown");
  id.erase(id.find_last_not_of(" \n") + 1);
  return {.boot_id = std::move(id), .netns = host.id()};
}

}  // namespace

Host Host::Open() {
  netlink::Netns here = netlink::Netns::Current();
  rtnl::Socket net = rtnl::Socket::In(here);
  nft::Socket nft = nft::Socket::In(here);
  Origin origin = OriginOf(here);
  return {.netns = std::move(here),
          .net = std::move(net),
          .nft = std::move(nft),
          .records = Records(origin),
          .checkpoint = CheckpointFile(std::move(origin)),
          .conntrack = std::nullopt};
}

}  // namespace nomad_bridge::state
