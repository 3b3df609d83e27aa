// Ethernet frames made by hand, as a container with CAP_NET_RAW may send them: with any source MAC,
// any address, and as ARP, ND, DHCP or tagged frames.
//
// Shapes   Frames are whole and begin with the Ethernet header. Addresses are text, ports are in
//          host byte order.
// Errors   std::logic_error for text that is no address.
#pragma once

#include "tests/support/node.h"

namespace nomad_bridge::test {

using Bytes = std::vector<std::uint8_t>;

struct Ethernet {
  Mac to;
  Mac from;
};

// A UDP datagram of either family, without a checksum over IPv4.
struct Datagram {
  std::string from;
  std::string to;
  std::uint16_t from_port = 9000;
  std::uint16_t port = 9000;
  std::string text = "forged";
};
[[nodiscard]] Bytes UdpFrame(const Ethernet& ethernet, const Datagram& datagram);

// An ARP reply: "`ip` is at `mac`", with the MAC and address of its receiver.
struct ArpReply {
  std::string ip;
  Mac mac;
  std::string to;
};
[[nodiscard]] Bytes ArpFrame(const Ethernet& ethernet, const ArpReply& reply);

// An ICMPv6 message; the checksum is filled in.
struct Icmpv6 {
  std::string from;
  std::string to;
  Bytes body;  // from the type on
};
[[nodiscard]] Bytes Icmpv6Frame(const Ethernet& ethernet, const Icmpv6& message);
// Return bodies of ICMPv6 messages: the first says "`ip` is at `mac`" (unsolicited, overriding),
// the second advertises a default router for half an hour.
[[nodiscard]] Bytes NeighbourAdvertisement(const std::string& ip, const Mac& mac);
[[nodiscard]] Bytes RouterAdvertisement();

// `frame` with a tag of VLAN 0 in front of its type, which receivers ignore.
[[nodiscard]] Bytes WithPriorityTag(Bytes frame);

// Sends `frame` out of `ifname`.
void SendFrame(const Node& node, const std::string& ifname, const Bytes& frame);

// The MAC of a node's interface.
[[nodiscard]] Mac MacOf(const Node& node, const std::string& ifname);

}  // namespace nomad_bridge::test
