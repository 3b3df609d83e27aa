#include "plugin/causes/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "netlink/nft/trace.h"

namespace nomad_bridge::causes {
namespace {

nft::Bytes NetworkOrder(std::uint16_t number) {
  return {static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number & 0xff)};
}

// What comes for the port, and what it answers.
std::vector<nft::Rule> ChoicesOf(const Journey& journey) {
  const auto protocol = static_cast<std::uint8_t>(journey.port.protocol);
  nft::Rule request;
  request.Only(journey.family())
      .L4Proto(protocol)
      .Is(nft::kUdpDport, NetworkOrder(journey.port.host_port));
  nft::Rule answer;
  answer.Only(journey.family())
      .L4Proto(protocol)
      .Saddr(Cidr::Host(journey.port.container_ip))
      .Is(nft::kSourcePort, NetworkOrder(journey.port.container_port));
  if (journey.is_client_named) {
    request.Saddr(Cidr::Host(*journey.client));
    answer.Daddr(Cidr::Host(*journey.client));
  }
  return {request, answer};
}

// Either family's.
union SocketAddress {
  sockaddr any;
  sockaddr_in ipv4;
  sockaddr_in6 ipv6;
};

SocketAddress AddressOf(const Ip& address, std::uint16_t port) {
  SocketAddress to{};
  if (address.is_ipv4()) {
    to.ipv4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    std::memcpy(&to.ipv4.sin_addr, address.bytes().data(), address.bytes().size());
  } else {
    to.ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    std::memcpy(&to.ipv6.sin6_addr, address.bytes().data(), address.bytes().size());
  }
  return to;
}

// The first packet of a connection, or a datagram without anything in it. The kernel sends the rest
// while the socket lives.
UniqueFd Send(const Journey& journey) {
  const bool is_udp = journey.port.protocol == portmap::Protocol::kUdp;
  UniqueFd socket(::socket(journey.family() == Family::kIpv4 ? AF_INET : AF_INET6,
                           (is_udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC,
                           static_cast<int>(journey.port.protocol)));
  const SocketAddress to = AddressOf(*journey.node, journey.port.host_port);
  if (socket.get() < 0 ||
      (::connect(socket.get(), &to.any, sizeof to) != 0 && errno != EINPROGRESS)) {
    throw ErrnoError(Code::kKernel, Cat("cannot send anything to ", *journey.node));
  }
  if (is_udp) {
    static_cast<void>(::send(socket.get(), "", 0, MSG_NOSIGNAL));
  }
  return socket;
}

std::string VerdictText(const nft::Verdict& verdict) {
  switch (verdict.code) {
    case nft::Verdict::Code::kDrop:
      return "drop";
    case nft::Verdict::Code::kAccept:
      return "accept";
    case nft::Verdict::Code::kJump:
      return Cat("jump ", verdict.chain);
    case nft::Verdict::Code::kGoto:
      return Cat("goto ", verdict.chain);
    case nft::Verdict::Code::kReturn:
      return "return";
    default:
      return "continue";
  }
}

std::string LineOf(const nft::TraceStep& step) {
  return Format(
      "{}, chain {}, {}: {}",
      nft::Text(step.table),
      step.chain,
      step.handle == 0 ? std::string("policy") : Format("rule with handle {}", step.handle),
      VerdictText(step.verdict));
}

}  // namespace

Traced TraceConnection(state::Host& host, const Journey& journey, Deadline deadline) {
  nft::Trace trace = nft::Trace::Start(host.netns, ChoicesOf(journey));
  const UniqueFd socket = journey.is_client_named || !journey.node ? UniqueFd() : Send(journey);
  const auto is_drop = [](const nft::TraceStep& step) {
    return step.verdict.code == nft::Verdict::Code::kDrop;
  };
  const std::vector<nft::TraceStep> steps = trace.Read(deadline, is_drop);
  // The first packet, and the first that comes back; what follows is the same again.
  Traced traced;
  std::vector<std::uint32_t> packets;
  for (const nft::TraceStep& step : steps) {
    constexpr std::size_t kBothWays = 2;
    if (std::ranges::find(packets, step.packet) == packets.end() && packets.size() < kBothWays) {
      packets.push_back(step.packet);
    }
    if (!packets.empty() && (step.packet == packets.front() || step.packet == packets.back())) {
      traced.lines.push_back(Cat(step.packet == packets.front() ? "" : "answer: ", LineOf(step)));
    }
  }
  traced.is_dropped = !steps.empty() && is_drop(steps.back());
  return traced;
}

}  // namespace nomad_bridge::causes
