#include "tests/support/frames.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/list.h"

namespace nomad_bridge::test {
namespace {

Bytes Be16(std::size_t value) {
  return {static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)};
}

Bytes AddressBytes(const std::string& text) {
  const std::optional<Ip> ip = Ip::Parse(text);
  if (!ip) {
    throw std::logic_error(Cat("'", text, "' is no address"));
  }
  return {ip->bytes().begin(), ip->bytes().end()};
}

Bytes BytesOf(const Mac& mac) {
  return {mac.bytes.begin(), mac.bytes.end()};
}

Bytes Joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) {
    Append(all, part);
  }
  return all;
}

// RFC 1071.
Bytes Checksum(const Bytes& bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? std::uint32_t{bytes[i]} << 8 : bytes[i];
  }
  while (sum >> 16 != 0) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return Be16(~sum & 0xffff);
}

Bytes Header(const Ethernet& ethernet, std::uint16_t type) {
  return Joined({BytesOf(ethernet.to), BytesOf(ethernet.from), Be16(type)});
}

void Put(Bytes& bytes, std::size_t offset, const Bytes& value) {
  std::copy(value.begin(), value.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
}

Bytes Ipv4Packet(const std::string& from, const std::string& to, const Bytes& payload) {
  constexpr std::size_t kHeaderBytes = 20;
  Bytes header = Joined({{0x45, 0},
                         Be16(kHeaderBytes + payload.size()),
                         {0, 1, 0, 0, 64, IPPROTO_UDP, 0, 0},
                         AddressBytes(from),
                         AddressBytes(to)});
  Put(header, 10, Checksum(header));
  return Joined({header, payload});
}

// `payload` has its checksum, still zero, at `checksum`.
Bytes Ipv6Packet(const std::string& from,
                 const std::string& to,
                 std::uint8_t protocol,
                 Bytes payload,
                 std::size_t checksum) {
  const Bytes addresses = Joined({AddressBytes(from), AddressBytes(to)});
  Put(payload,
      checksum,
      Checksum(Joined({addresses, {0, 0}, Be16(payload.size()), {0, 0, 0, protocol}, payload})));
  return Joined({{0x60, 0, 0, 0}, Be16(payload.size()), {protocol, 255}, addresses, payload});
}

}  // namespace

Bytes UdpFrame(const Ethernet& ethernet, const Datagram& datagram) {
  const Bytes text(datagram.text.begin(), datagram.text.end());
  const Bytes udp =
      Joined({Be16(datagram.from_port), Be16(datagram.port), Be16(8 + text.size()), {0, 0}, text});
  if (AddressBytes(datagram.to).size() == 4) {
    return Joined({Header(ethernet, ETH_P_IP), Ipv4Packet(datagram.from, datagram.to, udp)});
  }
  constexpr std::size_t kUdpChecksum = 6;
  return Joined({Header(ethernet, ETH_P_IPV6),
                 Ipv6Packet(datagram.from, datagram.to, IPPROTO_UDP, udp, kUdpChecksum)});
}

Bytes ArpFrame(const Ethernet& ethernet, const ArpReply& reply) {
  return Joined({Header(ethernet, ETH_P_ARP),
                 {0, 1, 8, 0, 6, 4, 0, 2},
                 BytesOf(reply.mac),
                 AddressBytes(reply.ip),
                 BytesOf(ethernet.to),
                 AddressBytes(reply.to)});
}

Bytes Icmpv6Frame(const Ethernet& ethernet, const Icmpv6& message) {
  constexpr std::size_t kIcmpChecksum = 2;
  return Joined(
      {Header(ethernet, ETH_P_IPV6),
       Ipv6Packet(message.from, message.to, IPPROTO_ICMPV6, message.body, kIcmpChecksum)});
}

Bytes NeighbourAdvertisement(const std::string& ip, const Mac& mac) {
  constexpr std::uint8_t kOverride = 0x20;
  return Joined({{136, 0, 0, 0, kOverride, 0, 0, 0}, AddressBytes(ip), {2, 1}, BytesOf(mac)});
}

Bytes RouterAdvertisement() {
  return Joined({{134, 0, 0, 0, 64, 0}, Be16(1800), Bytes(8)});
}

Bytes WithPriorityTag(Bytes frame) {
  constexpr std::ptrdiff_t kTypeOffset = 12;
  const Bytes tag = Joined({Be16(ETH_P_8021Q), {0, 0}});
  frame.insert(frame.begin() + kTypeOffset, tag.begin(), tag.end());
  return frame;
}

void SendFrame(const Node& node, const std::string& ifname, const Bytes& frame) {
  node.Do([&] {
    const UniqueFd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    sockaddr_ll link{};
    link.sll_family = AF_PACKET;
    link.sll_ifindex = static_cast<int>(::if_nametoindex(ifname.c_str()));
    if (::sendto(fd.get(),
                 frame.data(),
                 frame.size(),
                 0,
                 reinterpret_cast<const sockaddr*>(&link),
                 sizeof link) != static_cast<ssize_t>(frame.size())) {
      throw ErrnoError(Code::kInternal, Cat("cannot send a frame out of ", ifname));
    }
  });
}

Mac MacOf(const Node& node, const std::string& ifname) {
  const json links = node.Json({"ip", "-j", "link", "show", "dev", ifname});
  return Mac::Parse(links.at(0).at("address").get<std::string>()).value();
}

}  // namespace nomad_bridge::test
