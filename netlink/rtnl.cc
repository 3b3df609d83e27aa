#include "netlink/rtnl.h"

#include <cerrno>

#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/rtnl_impl.h"

namespace nomad_bridge {

Rtnl::Rtnl(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Rtnl::Rtnl(Rtnl&&) noexcept = default;
Rtnl& Rtnl::operator=(Rtnl&&) noexcept = default;
Rtnl::~Rtnl() = default;

Rtnl Rtnl::In(const Netns& ns) {
  return Rtnl(std::make_unique<Impl>(NetlinkSocket::In(ns, NETLINK_ROUTE)));
}

bool Rtnl::IsNetnsAlive(int netns_id) {
  // The kernel looks for a link only in a namespace that still has a reference; else the number is
  // an invalid one, as is -1, which stands for a namespace that is being torn down.
  Message question = LinkQuestion(kLoopbackIndex);
  question.PutU32(IFLA_TARGET_NETNSID, static_cast<std::uint32_t>(netns_id));
  const Answer answer = impl_->socket.Ask(question);
  if (answer.error != 0 && answer.error != EINVAL) {
    throw Refusal(Cat("cannot tell whether namespace ", netns_id, " is alive"), answer);
  }
  return answer.error == 0;
}

}  // namespace nomad_bridge
