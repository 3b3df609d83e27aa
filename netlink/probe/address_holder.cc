#include "netlink/probe/address_holder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file_lock.h"
#include "base/text.h"
#include "netlink/probe/frame.h"

namespace nomad_bridge::probe {
namespace {

constexpr int kQueries = 3;
constexpr std::chrono::milliseconds kBetweenQueries{200};

using Frame = std::span<const std::uint8_t>;

std::uint16_t ProtocolOf(const Ip& address) {
  return htons(address.is_ipv4() ? ETH_P_ARP : ETH_P_IPV6);
}

UniqueFd OpenOn(const netlink::Netns& ns, int link, const Ip& address) {
  UniqueFd socket;
  netlink::InNetns(ns, [&] {
    // With protocol 0 the socket receives nothing until it is bound to its link.
    socket = UniqueFd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  });
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = ProtocolOf(address);
  at.sll_ifindex = link;
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    throw ErrnoError(Code::kKernel, Cat("cannot ask who has the address ", address));
  }
  return socket;
}

bool HasAt(Frame frame, std::size_t at, std::span<const std::uint8_t> bytes) {
  return frame.size() >= at + bytes.size() &&
         std::ranges::equal(frame.subspan(at, bytes.size()), bytes);
}

// Returns whether the sender of `frame`, which has an Ethernet header, says that it has `address`.
bool IsFromHolder(Frame frame, const Ip& address) {
  constexpr std::size_t kArpSenderAt = ETH_HLEN + 14;
  constexpr std::size_t kNextHeaderAt = ETH_HLEN + 6;
  constexpr std::size_t kIcmpAt = ETH_HLEN + 40;
  constexpr std::size_t kTargetAt = kIcmpAt + 8;
  constexpr std::array<std::uint8_t, 1> kIcmp = {IPPROTO_ICMPV6};
  constexpr std::array<std::uint8_t, 1> kAdvertisement = {ND_NEIGHBOR_ADVERT};
  if (address.is_ipv4()) {
    return HasAt(frame, kArpSenderAt, address.bytes());
  }
  return HasAt(frame, kNextHeaderAt, kIcmp) && HasAt(frame, kIcmpAt, kAdvertisement) &&
         HasAt(frame, kTargetAt, address.bytes());
}

Mac SenderOf(Frame frame) {
  Mac sender;
  std::ranges::copy(frame.subspan(ETH_ALEN, ETH_ALEN), sender.bytes.begin());
  return sender;
}

// Adds the MACs of those that answer until `deadline`.
void Collect(const UniqueFd& socket, const Ip& address, Deadline deadline, std::set<Mac>& holders) {
  constexpr std::size_t kEnough = 128;  // what follows in a frame does not matter
  std::array<std::uint8_t, kEnough> buffer{};
  pollfd readable{.fd = socket.get(), .events = POLLIN, .revents = 0};
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return;
    }
    static_cast<void>(::poll(&readable, 1, static_cast<int>(left.count())));
    const ssize_t size = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (size < ETH_HLEN) {
      continue;
    }
    const Frame frame(buffer.data(), static_cast<std::size_t>(size));
    if (IsFromHolder(frame, address)) {
      holders.insert(SenderOf(frame));
    }
  }
}

}  // namespace

std::set<Mac> FindHolders(const netlink::Netns& ns, int link, const Mac& own, const Ip& address) {
  const UniqueFd socket = OpenOn(ns, link, address);
  const std::vector<std::uint8_t> query = HolderQuery(own, address);
  std::set<Mac> holders;
  for (int sent = 0; sent < kQueries && holders.empty(); ++sent) {
    // A link that has just been brought up may drop the first query.
    if (::send(socket.get(), query.data(), query.size(), 0) < 0 && errno == ENETDOWN) {
      break;
    }
    Collect(socket, address, FromNow(kBetweenQueries), holders);
    holders.erase(own);
  }
  return holders;
}

}  // namespace nomad_bridge::probe
