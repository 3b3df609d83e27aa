#include "plugin/link/former_bridge.h"

#include <vector>

#include "base/list.h"
#include "base/text.h"

namespace nomad_bridge::link {
namespace {

// The addresses alone: the bridge may be at work for others by now, and with it go the links that
// stand on it.
Fix FixOf(const rtnl::Link& former, const std::vector<Cidr>& shared) {
  return Joined(shared, " && ", [&](const Cidr& cidr) {
    return Format("ip address delete {} dev {}", cidr, ShellWord(former.name));
  });
}

}  // namespace

std::optional<Mismatch> FindFormerBridge(state::Host& host,
                                         const rtnl::Link& link,
                                         const rtnl::Link& gateway) {
  if (link.kind != "bridge" || link.index == gateway.index ||
      link.mac != Mac::ForName(gateway.name)) {
    return std::nullopt;
  }
  std::vector<Cidr> shared = host.net.Addresses(link);
  const std::vector<Cidr> own = host.net.Addresses(gateway);
  std::erase_if(shared, [&](const Cidr& cidr) {
    return (!cidr.address.is_ipv4() && cidr.address.IsLinkLocal()) || !Contains(own, cidr);
  });
  if (shared.empty()) {
    return std::nullopt;
  }
  return Mismatch{.owner = gateway.name,
                  .text = Format("'{}', which was bridge '{}' before, has its address {}, too: "
                                 "what is for containers leaves by one of both",
                                 link.name,
                                 gateway.name,
                                 shared.front()),
                  .repairable = false,
                  .fix = FixOf(link, shared)};
}

}  // namespace nomad_bridge::link
