#include "plugin/causes/trace.h"

#include <cerrno>
#include <cstddef>
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

// What comes for the port, and what it answers; with `client_port` from and to that port alone.
std::vector<nft::Rule> ChoicesOf(const Journey& journey, std::uint16_t client_port) {
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
  if (client_port != 0) {
    request.Is(nft::kSourcePort, NetworkOrder(client_port));
    answer.Is(nft::kUdpDport, NetworkOrder(client_port));
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

// Of the node's own connection: its port is known before it begins.
struct OwnEnd {
  UniqueFd socket;
  std::uint16_t port = 0;
};

OwnEnd OpenOwnEnd(const Journey& journey) {
  const bool is_udp = journey.port.protocol == portmap::Protocol::kUdp;
  OwnEnd own;
  own.socket = UniqueFd(::socket(journey.family() == Family::kIpv4 ? AF_INET : AF_INET6,
                                 (is_udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC,
                                 static_cast<int>(journey.port.protocol)));
  SocketAddress any{};
  any.any.sa_family = journey.family() == Family::kIpv4 ? AF_INET : AF_INET6;
  socklen_t size = sizeof any;
  if (own.socket.get() < 0 || ::bind(own.socket.get(), &any.any, sizeof any) != 0 ||
      ::getsockname(own.socket.get(), &any.any, &size) != 0) {
    throw ErrnoError(Code::kKernel, "cannot open a socket to send from");
  }
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  own.port = ntohs(any.ipv4.sin_port);
  return own;
}

// The first packet of a connection, or a datagram without anything in it. The kernel sends the rest
// while the socket lives.
void SendFrom(const OwnEnd& own, const Journey& journey) {
  const SocketAddress to = AddressOf(*journey.node, journey.port.host_port);
  if (::connect(own.socket.get(), &to.any, sizeof to) != 0 && errno != EINPROGRESS) {
    throw ErrnoError(Code::kKernel, Cat("cannot send anything to ", *journey.node));
  }
  if (journey.port.protocol == portmap::Protocol::kUdp) {
    static_cast<void>(::send(own.socket.get(), "", 0, MSG_NOSIGNAL));
  }
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

// Which packets are shown: the first that came for the port, and the first that comes back to it.
class Shown {
 public:
  explicit Shown(std::uint16_t port) : port_(port) {}

  enum class As : std::uint8_t { kNothing, kRequest, kAnswer };

  As Take(const nft::TraceStep& step) {
    if (!request_ && step.destination_port == port_) {
      request_ = step;
    }
    if (!request_ || step.packet == request_->packet) {
      return request_ ? As::kRequest : As::kNothing;
    }
    if (!answer_ && step.destination_port == request_->source_port) {
      answer_ = step;
    }
    return answer_ && step.packet == answer_->packet ? As::kAnswer : As::kNothing;
  }

 private:
  std::uint16_t port_;
  std::optional<nft::TraceStep> request_;
  std::optional<nft::TraceStep> answer_;
};

}  // namespace

Traced TraceConnection(state::Host& host, const Journey& journey, Deadline deadline) {
  const OwnEnd own = journey.is_client_named || !journey.node ? OwnEnd() : OpenOwnEnd(journey);
  nft::Trace trace = nft::Trace::Start(host.netns, ChoicesOf(journey, own.port));
  if (own.port != 0) {
    SendFrom(own, journey);
  }
  Traced traced;
  Shown shown(journey.port.host_port);
  const auto take = [&](const nft::TraceStep& step) {
    const Shown::As as = shown.Take(step);
    if (as != Shown::As::kNothing) {
      traced.lines.push_back(Cat(as == Shown::As::kRequest ? "" : "answer: ", LineOf(step)));
      traced.is_dropped = step.verdict.code == nft::Verdict::Code::kDrop;
    }
    return traced.is_dropped;
  };
  trace.Read(deadline, take);
  return traced;
}

}  // namespace nomad_bridge::causes
