// Helpers that the sources of rtnl share. Private to netlink/.
//
// Errors  kKernel and kTryAgain as in request_socket.h.
// Source  rtnetlink(7), linux/if_link.h, linux/if_addr.h.
#pragma once

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "netlink/core/message.h"
#include "netlink/core/request_socket.h"
#include "netlink/rtnl/rtnl.h"

namespace nomad_bridge::rtnl {

// The flags of a request for a change, and of a request that creates something new.
constexpr int kAck = NLM_F_ACK;
constexpr int kCreate = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;

// The link-local groups that a port forwards, one bit per group: all except the group of pause
// frames, whose bit the kernel refuses. Linux 4.15.
constexpr std::uint16_t kAllGroups = 0xfffd;

// Replaces EOPNOTSUPP, with which a kernel without VLANs refuses every request about VLANs.
constexpr const char* kNoVlans =
    "'vlan' and 'vlanTrunk' need a kernel with bridge VLAN filtering "
    "(CONFIG_BRIDGE_VLAN_FILTERING), which this kernel lacks";

// Returns the fixed header of a message about link `index`. With `family` AF_BRIDGE, the message is
// about the link as a bridge's port.
[[nodiscard]] ifinfomsg HeadFor(int index, unsigned char family = AF_UNSPEC);

// Returns AF_INET or AF_INET6.
[[nodiscard]] inline unsigned char NumberOf(Family family) {
  return family == Family::kIpv4 ? AF_INET : AF_INET6;
}
[[nodiscard]] inline unsigned char FamilyOf(const Ip& ip) {
  return NumberOf(ip.family());
}

// Returns RTM_GETROUTE for the route that packets to `destination` take.
[[nodiscard]] netlink::Message GetRouteRequest(const Ip& destination,
                                               const std::optional<Ip>& source = std::nullopt,
                                               std::uint32_t flags = 0);
// The errors of such a request if there is no route, or if the route drops packets.
constexpr std::initializer_list<int> kNoRouteErrors =
    {ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL, EOPNOTSUPP, EXDEV, ENODEV};

// Puts name, MAC and MTU of a new link. If `mtu` is 0, the kernel chooses the MTU.
void PutIdentity(netlink::Message& message, const std::string& name, const Mac& mac, int mtu);

// Returns a MAC of zeros unless there are six `bytes`.
[[nodiscard]] Mac ReadMac(std::span<const std::uint8_t> bytes);

// Reads a link from RTM_NEWLINK.
[[nodiscard]] Link ReadLink(const nlmsghdr* message);

// An address and the state of its duplicate address detection.
struct AddressState {
  Cidr address;
  bool tentative = false;  // in progress
  bool duplicate = false;  // another machine has it
};

// Returns the addresses of `link`: one dump.
[[nodiscard]] std::vector<AddressState> AddressStates(netlink::RequestSocket& socket,
                                                      const Link& link);

}  // namespace nomad_bridge::rtnl
