// What the sources of rtnl share. Private to netlink/.
//
// Errors  kKernel and kTryAgain as in request_socket.h.
// Source  rtnetlink(7), linux/if_link.h, linux/if_addr.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "netlink/core/message.h"
#include "netlink/core/request_socket.h"
#include "netlink/rtnl/rtnl.h"

namespace nomad_bridge::rtnl {

// The flags of a request that is acknowledged, and of one that makes something new.
constexpr int kAck = NLM_F_ACK;
constexpr int kCreate = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;

// Link-local groups that a port forwards: a bit per group, but for that of pause frames, which the
// kernel refuses. Linux 4.15.
constexpr std::uint16_t kAllGroups = 0xfffd;

// In place of EOPNOTSUPP, with which a kernel without VLANs refuses anything about them.
constexpr const char* kNoVlans =
    "'vlan' and 'vlanTrunk' need a kernel with bridge VLAN filtering "
    "(CONFIG_BRIDGE_VLAN_FILTERING), which this kernel lacks";

// The fixed header of a message about link `index`; `family` AF_BRIDGE: as a bridge's port.
[[nodiscard]] ifinfomsg HeadFor(int index, unsigned char family = AF_UNSPEC);

// AF_INET or AF_INET6.
[[nodiscard]] inline unsigned char NumberOf(Family family) {
  return family == Family::kIpv4 ? AF_INET : AF_INET6;
}
[[nodiscard]] inline unsigned char FamilyOf(const Ip& ip) {
  return NumberOf(ip.family());
}

// RTM_GETROUTE for the route that packets to `destination` take.
[[nodiscard]] netlink::Message GetRouteRequest(const Ip& destination,
                                               const std::optional<Ip>& source = std::nullopt);

// Name, MAC and MTU of a link that is to be made.
void PutIdentity(netlink::Message& message, const std::string& name, const Mac& mac, int mtu);

// All zero unless `bytes` are six.
[[nodiscard]] Mac ReadMac(std::span<const std::uint8_t> bytes);

// A link as an RTM_NEWLINK shows it.
[[nodiscard]] Link ReadLink(const nlmsghdr* message);

// An address and its duplicate address detection.
struct AddressState {
  Cidr address;
  bool tentative = false;  // in progress
  bool duplicate = false;  // another machine has it
};

// One dump of the addresses of `link`.
[[nodiscard]] std::vector<AddressState> AddressStates(netlink::RequestSocket& socket,
                                                      const Link& link);

}  // namespace nomad_bridge::rtnl
