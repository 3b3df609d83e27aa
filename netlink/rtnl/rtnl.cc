#include "netlink/rtnl/rtnl.h"

#include <cerrno>

#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {

Socket Socket::In(const netlink::Netns& ns) {
  return Socket(netlink::RequestSocket::In(ns, NETLINK_ROUTE));
}

bool Socket::IsNetnsAlive(int netns_id) {
  // EINVAL: nothing references that namespace any more. -1, for a namespace that is being torn down,
  // is invalid too.
  netlink::Message request = GetLinkRequest(kLoopbackIndex);
  request.PutU32(IFLA_TARGET_NETNSID, static_cast<std::uint32_t>(netns_id));
  const std::string what = Cat("cannot tell whether namespace ", netns_id, " is alive");
  return socket_.TransactOrThrow(request, what, {EINVAL}).error == 0;
}

}  // namespace nomad_bridge::rtnl
