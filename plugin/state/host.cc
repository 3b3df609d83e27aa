#include "plugin/state/host.h"

#include <utility>

namespace nomad_bridge::state {

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
