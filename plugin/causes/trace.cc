#include "plugin/causes/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "netlink/conntrack/conntrack.h"
#include "netlink/nft/trace.h"

namespace nomad_bridge::causes {
namespace {

// What comes for the port, and what it answers; with `client_port` from and to that port alone.
std::vector<nft::Rule> ChoicesOf(const Connection& connection, std::uint16_t client_port) {
  const auto protocol = static_cast<std::uint8_t>(connection.protocol);
  nft::Rule request;
  request.Only(connection.family()).L4Proto(protocol).Dport(connection.port);
  nft::Rule answer;
  answer.Only(connection.family())
      .L4Proto(protocol)
      .Saddr(Cidr::Host(connection.server))
      .Sport(connection.server_port);
  if (connection.is_client_named) {
    request.Saddr(Cidr::Host(connection.source));
    answer.Daddr(Cidr::Host(connection.source));
  }
  if (client_port != 0) {
    request.Sport(client_port);
    answer.Dport(client_port);
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

OwnEnd OpenOwnEnd(const Connection& connection) {
  const bool is_udp = connection.protocol == portmap::Protocol::kUdp;
  OwnEnd own;
  own.socket = UniqueFd(::socket(connection.family() == Family::kIpv4 ? AF_INET : AF_INET6,
                                 (is_udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC,
                                 static_cast<int>(connection.protocol)));
  SocketAddress any{};
  any.any.sa_family = connection.family() == Family::kIpv4 ? AF_INET : AF_INET6;
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
void SendFrom(const OwnEnd& own, const Connection& connection) {
  const SocketAddress to = AddressOf(connection.destination, connection.port);
  if (::connect(own.socket.get(), &to.any, sizeof to) != 0 && errno != EINPROGRESS) {
    throw ErrnoError(Code::kKernel, Cat("cannot send anything to ", connection.destination));
  }
  if (connection.protocol == portmap::Protocol::kUdp) {
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

// One packet's way through the node's hooks.
class Passage {
 public:
  enum class Stage : std::uint8_t { kNotSeen, kOnItsWay, kLost, kDropped, kPassed };

  // Whether `step` is a rule of this packet, not of one that follows it.
  bool Take(const nft::TraceStep& step) {
    is_repeated_ =
        is_repeated_ || (stage_ != Stage::kNotSeen && step.at == nft::TraceStep::At::kStart);
    if (stage_ > Stage::kOnItsWay) {
      return false;
    }
    const bool is_rule = step.at == nft::TraceStep::At::kRule;
    if (step.at == nft::TraceStep::At::kStart) {
      stage_ = stage_ == Stage::kNotSeen ? Stage::kOnItsWay : Stage::kLost;
    } else if (!is_rule) {
      stage_ = Stage::kPassed;
    } else {
      last_ = step;
      stage_ = step.verdict.code == nft::Verdict::Code::kDrop ? Stage::kDropped : Stage::kOnItsWay;
    }
    return is_rule;
  }

  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] bool IsDropped() const { return stage_ == Stage::kDropped; }
  [[nodiscard]] bool IsLost() const { return stage_ == Stage::kOnItsWay || stage_ == Stage::kLost; }
  // Another one has followed it.
  [[nodiscard]] bool IsRepeated() const { return is_repeated_; }
  [[nodiscard]] const std::optional<nft::TraceStep>& last() const { return last_; }

 private:
  Stage stage_ = Stage::kNotSeen;
  bool is_repeated_ = false;
  std::optional<nft::TraceStep> last_;
};

// The first packet that came for the port, and the first that comes back to it. The client's port
// tells them from others, and is known by all that shows.
class Passages {
 public:
  explicit Passages(std::uint16_t port) : port_(port) {}

  void Take(const nft::TraceStep& step) {
    if (client_port_ == 0 && step.destination_port == port_) {
      client_port_ = step.source_port;
    }
    if (client_port_ == 0) {
      return;
    }
    if (step.destination_port == client_port_ && step.source_port != client_port_) {
      Add("answer: ", answer, step);
    } else if (step.source_port == client_port_) {
      Add("", request, step);
    }
  }

  [[nodiscard]] bool IsDropped() const { return request.IsDropped() || answer.IsDropped(); }
  [[nodiscard]] std::uint16_t client_port() const { return client_port_; }

  std::vector<std::string> lines;
  Passage request;
  Passage answer;

 private:
  void Add(std::string_view prefix, Passage& passage, const nft::TraceStep& step) {
    if (passage.Take(step)) {
      lines.push_back(Cat(prefix, LineOf(step)));
    }
  }

  std::uint16_t port_;
  std::uint16_t client_port_ = 0;
};

// Of TCP; kUnknown: of another protocol, or nothing is known of it.
enum class Handshake : std::uint8_t { kUnknown, kPending, kRefused, kDone };

// Of a connection of the node's own.
Handshake OwnHandshake(const OwnEnd& own) {
  constexpr int kMomentMs = 100;
  pollfd waiting{.fd = own.socket.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&waiting, 1, kMomentMs) <= 0) {
    return Handshake::kPending;
  }
  int error = 0;
  socklen_t size = sizeof error;
  const int got = ::getsockopt(own.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return got == 0 && error == 0 ? Handshake::kDone : Handshake::kRefused;
}

Handshake FindHandshake(state::Host& host,
                        const Connection& connection,
                        const OwnEnd& own,
                        std::uint16_t client_port) {
  if (connection.protocol != portmap::Protocol::kTcp) {
    return Handshake::kUnknown;
  }
  if (own.port != 0) {
    return OwnHandshake(own);
  }
  const std::optional<bool> is_established =
      client_port == 0 || !connection.is_client_named
          ? std::nullopt
          : conntrack::Conntrack::In(host.netns)
                .IsEstablished(connection.source,
                               client_port,
                               {.protocol = static_cast<std::uint8_t>(connection.protocol),
                                .address = connection.server,
                                .port = connection.server_port});
  return !is_established   ? Handshake::kUnknown
         : *is_established ? Handshake::kDone
                           : Handshake::kPending;
}

// Of the answers of a published port those to the node itself alone pass there.
bool IsAtInput(state::Host& host, const Passage& answer) {
  const std::vector<nft::Socket::TableChain> chains = host.nft.Chains();
  return std::ranges::any_of(chains, [&](const nft::Socket::TableChain& each) {
    return each.chain.hook && each.chain.hook->point == nft::Hook::Point::kInput && answer.last() &&
           each.table == answer.last()->table && each.chain.name == answer.last()->chain;
  });
}

// A client asks again after 1 second, and after 3: of a slow one, or a slow service, it shows by
// then that it is answered.
constexpr std::chrono::seconds kPatience{3};

// Behind the last rule that has seen it.
std::string RemarkOnHandshake(const Passages& seen, Handshake handshake, bool is_own) {
  using Stage = Passage::Stage;
  const auto seconds = (kPatience + nft::Trace::kMore).count();
  if (seen.answer.stage() != Stage::kPassed) {
    return handshake == Handshake::kRefused
               ? "it ends in an error, without an answer"
               : Format("in {} seconds nothing has come back from the container", seconds);
  }
  if (handshake == Handshake::kRefused) {
    return "answer: it refuses";
  }
  return is_own ? "answer: this node does not take it for one"
                : Format("answer: in {} seconds the client has not confirmed it{}",
                         seconds,
                         seen.request.IsRepeated() ? ", and has asked again" : "");
}

// What the last rule does not say.
std::string RemarkOn(state::Host& host, const Passages& seen, Handshake handshake, bool is_own) {
  constexpr std::string_view kNoRule =
      "gets no further, and no rule that is seen says so: a queue without a program, "
      "iptables-legacy, or a route";
  using Stage = Passage::Stage;
  if (seen.request.IsLost()) {
    return Cat("it ", kNoRule);
  }
  if (seen.answer.stage() == Stage::kDropped) {
    return is_own && IsAtInput(host, seen.answer)
               ? "what others are answered does not come there: only this node itself is not"
               : "";
  }
  if (seen.answer.IsLost()) {
    return Cat("answer: it ", kNoRule);
  }
  const bool is_open = handshake == Handshake::kPending || handshake == Handshake::kRefused;
  return seen.request.stage() == Stage::kPassed && is_open
             ? RemarkOnHandshake(seen, handshake, is_own)
             : "";
}

// A client that was sent an answer, and does not ask again, may well have got it.
bool MayBeAnswered(const Passages& seen, bool is_own) {
  return !is_own && seen.answer.stage() == Passage::Stage::kPassed && !seen.request.IsRepeated();
}

Traced::Outcome OutcomeOf(const Passages& seen,
                          Handshake handshake,
                          bool is_own,
                          portmap::Protocol protocol) {
  using Outcome = Traced::Outcome;
  using Stage = Passage::Stage;
  if (seen.IsDropped() || handshake == Handshake::kRefused) {
    return Outcome::kUnanswered;
  }
  if (handshake == Handshake::kDone) {
    return Outcome::kAnswered;
  }
  if (handshake == Handshake::kPending) {
    return MayBeAnswered(seen, is_own) ? Outcome::kUnknown : Outcome::kUnanswered;
  }
  if (seen.request.IsLost() || seen.answer.IsLost()) {
    return Outcome::kUnanswered;
  }
  const bool needs_answer = protocol != portmap::Protocol::kUdp;
  return (needs_answer ? seen.answer : seen.request).stage() == Stage::kPassed ? Outcome::kAnswered
                                                                               : Outcome::kUnknown;
}

}  // namespace

Traced TraceConnection(state::Host& host, const Connection& connection, Deadline deadline) {
  const OwnEnd own = connection.is_client_named ? OwnEnd() : OpenOwnEnd(connection);
  const bool is_own = own.port != 0;
  nft::Trace trace = nft::Trace::Start(host.netns, ChoicesOf(connection, own.port));
  if (is_own) {
    SendFrom(own, connection);
  }
  Passages seen(connection.port);
  const auto take = [&](const nft::TraceStep& step) {
    seen.Take(step);
    // What another client sends then shows whether it has taken the answer for one.
    return seen.IsDropped() || (is_own && seen.answer.stage() == Passage::Stage::kPassed);
  };
  trace.Read(deadline, take);
  const auto find = [&] { return FindHandshake(host, connection, own, seen.client_port()); };
  Handshake handshake = find();
  const Deadline last = FromNow(kPatience);
  while (handshake == Handshake::kPending && !seen.IsDropped() &&
         std::chrono::steady_clock::now() < last) {
    constexpr std::chrono::milliseconds kOnce{500};
    trace.Read(FromNow(kOnce), take);
    handshake = find();
  }
  Traced traced = {.lines = seen.lines,
                   .outcome = OutcomeOf(seen, handshake, is_own, connection.protocol)};
  const std::string remark =
      traced.outcome == Traced::Outcome::kAnswered ? "" : RemarkOn(host, seen, handshake, is_own);
  if (!remark.empty()) {
    traced.lines.push_back(remark);
  }
  return traced;
}

}  // namespace nomad_bridge::causes
