#include "netlink/rtnl/rtnl.h"

#include <cerrno>

#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {

Socket::Socket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Socket::Socket(Socket&&) noexcept = default;
Socket& Socket::operator=(Socket&&) noexcept = default;
Socket::~Socket() = default;

Socket Socket::In(const netlink::Netns& ns) {
  return Socket(std::make_unique<Impl>(netlink::RequestSocket::In(ns, NETLINK_ROUTE)));
}

bool Socket::IsNetnsAlive(int netns_id) {
  // The kernel looks for a link only in a namespace that still has a reference; else the number is
  // an invalid one, as is -1, which stands for a namespace that is being torn down.
  netlink::Message question = LinkQuestion(kLoopbackIndex);
  question.PutU32(IFLA_TARGET_NETNSID, static_cast<std::uint32_t>(netns_id));
  const netlink::Reply answer = impl_->socket.Transact(question);
  if (answer.error != 0 && answer.error != EINVAL) {
    throw netlink::RequestError(Cat("cannot tell whether namespace ", netns_id, " is alive"),
                                answer);
  }
  return answer.error == 0;
}

}  // namespace nomad_bridge::rtnl
