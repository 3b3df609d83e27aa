#include "plugin/host.h"

#include <utility>

namespace nomad_bridge {

Host Host::Open() {
  Netns here = Netns::Current();
  Rtnl net = Rtnl::In(here);
  NftSocket nft = NftSocket::In(here);
  Records records(here.id());
  return {.netns = std::move(here),
          .net = std::move(net),
          .nft = std::move(nft),
          .records = std::move(records),
          .conntrack = std::nullopt};
}

}  // namespace nomad_bridge
