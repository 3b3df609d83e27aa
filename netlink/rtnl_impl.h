// What the rtnl_*.cc files share: the socket behind an Rtnl, and how a link is asked for and read.
// Private to netlink/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "netlink/message.h"
#include "netlink/rtnl.h"
#include "netlink/socket.h"

namespace nomad_bridge {

class Rtnl::Impl {
 public:
  explicit Impl(NetlinkSocket opened) : socket(std::move(opened)) {}

  NetlinkSocket socket;
};

// A link and what only waiting for it needs.
struct LinkState {
  Link link;
  int operstate = 0;                       // IF_OPER_...
  std::optional<std::uint8_t> port_state;  // BR_STATE_..., if it is a bridge's port
};

// RTM_GETLINK for one link, statistics left out. The caller adds how to find it.
[[nodiscard]] Message LinkQuestion(int index);
[[nodiscard]] LinkState ReadLink(const nlmsghdr* message);

// A bare RTM_GETLINK by name; nullopt if there is none.
[[nodiscard]] std::optional<LinkState> FindLinkState(NetlinkSocket& socket,
                                                     const std::string& name);

}  // namespace nomad_bridge
