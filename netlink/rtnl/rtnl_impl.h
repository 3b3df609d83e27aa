// What the rtnl_*.cc files share: the socket behind an Socket, and how a link is asked for and read.
// Private to netlink/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <linux/rtnetlink.h>

#include "netlink/core/message.h"
#include "netlink/core/request_socket.h"
#include "netlink/rtnl/rtnl.h"

namespace nomad_bridge::rtnl {

class Socket::Impl {
 public:
  explicit Impl(netlink::RequestSocket opened) : socket(std::move(opened)) {}

  netlink::RequestSocket socket;
};

// A link and what only waiting for it needs.
struct LinkState {
  Link link;
  int operstate = 0;                       // IF_OPER_...
  std::optional<std::uint8_t> port_state;  // BR_STATE_..., if it is a bridge's port
};

// The flags of a request that is acknowledged, and of one that makes something new.
constexpr int kAck = NLM_F_ACK;
constexpr int kCreate = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;

// What a kernel means that refuses anything about VLANs with EOPNOTSUPP.
constexpr const char* kNoVlans =
    "'vlan' and 'vlanTrunk' need a kernel with bridge VLAN filtering "
    "(CONFIG_BRIDGE_VLAN_FILTERING), which this one has not";

// The fixed header of a message about link `index`; `family` AF_BRIDGE: as a bridge's port.
[[nodiscard]] ifinfomsg HeadFor(int index, unsigned char family = AF_UNSPEC);

// Name, MAC and MTU of a link that is to be made.
void PutIdentity(netlink::Message& message, const std::string& name, const Mac& mac, int mtu);

// RTM_GETLINK for one link, statistics left out. The caller adds how to find it.
[[nodiscard]] netlink::Message LinkQuestion(int index);
[[nodiscard]] LinkState ReadLink(const nlmsghdr* message);

// A bare RTM_GETLINK by name; nullopt if there is none.
[[nodiscard]] std::optional<LinkState> FindLinkState(netlink::RequestSocket& socket,
                                                     const std::string& name);

// An address and what became of asking whether somebody else has it.
struct AddressState {
  Cidr address;
  bool tentative = false;  // still being asked for
  bool duplicate = false;  // somebody has
};

// One dump of the addresses of `link`.
[[nodiscard]] std::vector<AddressState> AddressStates(netlink::RequestSocket& socket,
                                                      const Link& link);

}  // namespace nomad_bridge::rtnl
