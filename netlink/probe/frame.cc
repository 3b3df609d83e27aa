#include "netlink/probe/frame.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>

namespace nomad_bridge::probe {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint8_t kHops = 63;      // as if a client's packet had passed a router
constexpr std::uint8_t kAllHops = 255;  // of neighbour discovery: nobody has forwarded the packet
constexpr std::uint8_t kSyn = 0x02;
constexpr std::uint8_t kReset = 0x04;

void Put16(Bytes& bytes, std::uint32_t number) {
  bytes.push_back(static_cast<std::uint8_t>(number >> 8 & 0xff));
  bytes.push_back(static_cast<std::uint8_t>(number & 0xff));
}

void Put32(Bytes& bytes, std::uint32_t number) {
  Put16(bytes, number >> 16);
  Put16(bytes, number & 0xffff);
}

void Put(Bytes& bytes, std::span<const std::uint8_t> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

// RFC 1071
std::uint16_t Checksum(const Bytes& bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? std::uint32_t{bytes[i]} << 8 : bytes[i];
  }
  while (sum >> 16 != 0) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(~sum & 0xffff);
}

void Write16(Bytes& bytes, std::size_t at, std::uint16_t number) {
  bytes[at] = static_cast<std::uint8_t>(number >> 8);
  bytes[at + 1] = static_cast<std::uint8_t>(number & 0xff);
}

// TCP's and UDP's checksums also cover a pseudo header, which has the addresses.
void SetTransportChecksum(const Flow& flow, Bytes& segment, std::size_t at) {
  Bytes covered;
  Put(covered, flow.source.bytes());
  Put(covered, flow.destination.bytes());
  Put32(covered, static_cast<std::uint32_t>(segment.size()));
  Put32(covered, flow.protocol);
  Put(covered, segment);
  Write16(segment, at, Checksum(covered));
}

Bytes Tcp(const Flow& flow, std::uint32_t sequence, std::uint8_t flags) {
  constexpr std::size_t kChecksumAt = 16;
  constexpr std::uint8_t kWords = 5 << 4;
  constexpr std::uint16_t kWindow = 64240;
  Bytes header;
  Put16(header, flow.source_port);
  Put16(header, flow.destination_port);
  Put32(header, sequence);
  Put32(header, 0);
  header.push_back(kWords);
  header.push_back(flags);
  Put16(header, kWindow);
  Put32(header, 0);
  SetTransportChecksum(flow, header, kChecksumAt);
  return header;
}

Bytes Udp(const Flow& flow) {
  constexpr std::size_t kChecksumAt = 6;
  constexpr std::uint16_t kBytes = 12;
  Bytes datagram;
  Put16(datagram, flow.source_port);
  Put16(datagram, flow.destination_port);
  Put16(datagram, kBytes);
  Put16(datagram, 0);
  Put32(datagram, flow.token);
  SetTransportChecksum(flow, datagram, kChecksumAt);
  return datagram;
}

Bytes Ipv4Header(const Flow& flow, std::size_t payload) {
  constexpr std::size_t kBytes = 20;
  constexpr std::size_t kChecksumAt = 10;
  Bytes header = {0x45, 0};
  Put16(header, static_cast<std::uint32_t>(kBytes + payload));
  Put16(header, flow.token & 0xffff);
  Put16(header, 0x4000);
  header.push_back(kHops);
  header.push_back(flow.protocol);
  Put16(header, 0);
  Put(header, flow.source.bytes());
  Put(header, flow.destination.bytes());
  Write16(header, kChecksumAt, Checksum(header));
  return header;
}

Bytes Ipv6Header(const Flow& flow, std::size_t payload, std::uint8_t hops) {
  Bytes header = {0x60, 0, 0, 0};
  Put16(header, static_cast<std::uint32_t>(payload));
  header.push_back(flow.protocol);
  header.push_back(hops);
  Put(header, flow.source.bytes());
  Put(header, flow.destination.bytes());
  return header;
}

Bytes PacketWith(const Flow& flow, const Bytes& payload) {
  Bytes packet = flow.source.is_ipv4() ? Ipv4Header(flow, payload.size())
                                       : Ipv6Header(flow, payload.size(), kHops);
  Put(packet, payload);
  return packet;
}

constexpr Mac kEverybody = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

Bytes ArpProbe(const Mac& from, const Ip& address) {
  constexpr std::uint8_t kRequest = 1;
  Bytes frame;
  Put(frame, kEverybody.bytes);
  Put(frame, from.bytes);
  Put16(frame, ETH_P_ARP);
  Put16(frame, ARPHRD_ETHER);
  Put16(frame, ETH_P_IP);
  frame.push_back(ETH_ALEN);
  frame.push_back(static_cast<std::uint8_t>(address.bytes().size()));
  Put16(frame, kRequest);
  Put(frame, from.bytes);
  Put(frame, Ip().bytes());
  Put(frame, Mac().bytes);
  Put(frame, address.bytes());
  return frame;
}

Bytes Solicitation(const Mac& from, const Ip& address) {
  constexpr std::size_t kChecksumAt = 2;
  constexpr std::size_t kGroupBytes = 3;   // of the address, in the group's address
  constexpr std::size_t kMappedBytes = 4;  // of the group, in its MAC (RFC 2464)
  std::array<std::uint8_t, 16> group = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
  std::ranges::copy(address.bytes().last(kGroupBytes), group.end() - kGroupBytes);
  Mac to = {{0x33, 0x33}};
  std::copy(group.end() - kMappedBytes, group.end(), to.bytes.end() - kMappedBytes);

  constexpr std::array<std::uint8_t, 16> kNone = {};
  const Flow flow{.source = Ip(kNone), .destination = Ip(group), .protocol = IPPROTO_ICMPV6};
  Bytes message = {ND_NEIGHBOR_SOLICIT, 0, 0, 0, 0, 0, 0, 0};
  Put(message, address.bytes());
  SetTransportChecksum(flow, message, kChecksumAt);
  Bytes packet = Ipv6Header(flow, message.size(), kAllHops);
  Put(packet, message);
  return Framed(to, from, packet);
}

}  // namespace

std::vector<std::uint8_t> FirstPacket(const Flow& flow) {
  return PacketWith(flow, flow.protocol == IPPROTO_TCP ? Tcp(flow, flow.token, kSyn) : Udp(flow));
}

std::vector<std::uint8_t> ResetPacket(const Flow& flow) {
  return PacketWith(flow, Tcp(flow, flow.token + 1, kReset));
}

std::vector<std::uint8_t> Framed(const Mac& to,
                                 const Mac& from,
                                 const std::vector<std::uint8_t>& packet) {
  const bool is_ipv4 = (packet.front() >> 4) == 4;
  Bytes frame;
  Put(frame, to.bytes);
  Put(frame, from.bytes);
  Put16(frame, is_ipv4 ? ETH_P_IP : ETH_P_IPV6);
  Put(frame, packet);
  return frame;
}

std::vector<std::uint8_t> HolderQuery(const Mac& from, const Ip& address) {
  return address.is_ipv4() ? ArpProbe(from, address) : Solicitation(from, address);
}

}  // namespace nomad_bridge::probe
