#include "netlink/sockets/name_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <span>

#include <arpa/nameser.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "netlink/sockets/endpoint.h"

namespace nomad_bridge::sockets {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Outcome = NameAnswer::Outcome;

constexpr std::size_t kQuestionTail = 4;  // type and class

std::uint16_t TypeOf(Family family) {
  return static_cast<std::uint16_t>(family == Family::kIpv4 ? ns_t_a : ns_t_aaaa);
}

void PutNumber(Bytes& bytes, std::uint16_t number) {
  bytes.push_back(static_cast<std::uint8_t>(number >> 8));
  bytes.push_back(static_cast<std::uint8_t>(number));
}

// Returns a query that asks for recursion; nullopt if `name` cannot be one.
std::optional<Bytes> QueryFor(const std::string& name, Family family, std::uint16_t id) {
  constexpr std::uint16_t kRecursion = 0x0100;
  Bytes query;
  for (const std::uint16_t number :
       {id, kRecursion, std::uint16_t{1}, std::uint16_t{0}, std::uint16_t{0}, std::uint16_t{0}}) {
    PutNumber(query, number);
  }
  for (const std::string& label : SplitFields(name, ".")) {
    if (label.size() > NS_MAXLABEL) {
      return std::nullopt;
    }
    query.push_back(static_cast<std::uint8_t>(label.size()));
    query.insert(query.end(), label.begin(), label.end());
  }
  query.push_back(0);
  if (query.size() > NS_HFIXEDSZ + NS_MAXCDNAME) {
    return std::nullopt;
  }
  PutNumber(query, TypeOf(family));
  PutNumber(query, ns_c_in);
  return query;
}

// Reads an answer from its begin to its end. What is cut off reads as zeros.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool IsAtEnd() const { return at_ >= bytes_.size(); }
  std::span<const std::uint8_t> Take(std::size_t size) {
    const std::size_t begin = std::min(at_, bytes_.size());
    at_ = begin + std::min(size, bytes_.size() - begin);
    return bytes_.subspan(begin, at_ - begin);
  }
  std::uint16_t Number() {
    const std::span<const std::uint8_t> two = Take(2);
    return two.size() < 2 ? std::uint16_t{0} : static_cast<std::uint16_t>(two[0] << 8 | two[1]);
  }
  // A compressed name ends with a pointer, which is not followed.
  void SkipName() {
    while (!IsAtEnd()) {
      const std::uint8_t length = Take(1).front();
      if ((length & NS_CMPRSFLGS) != 0) {
        Take(1);
        return;
      }
      if (length == 0) {
        return;
      }
      Take(length);
    }
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

NameAnswer ReadAnswer(std::span<const std::uint8_t> bytes, Family family) {
  constexpr std::uint16_t kTruncated = 0x0200;
  constexpr std::uint16_t kCode = 0x000f;
  Reader reader(bytes);
  reader.Take(2);  // the id
  const std::uint16_t flags = reader.Number();
  const std::uint16_t questions = reader.Number();
  const std::uint16_t answers = reader.Number();
  reader.Take(4);
  if ((flags & kCode) != ns_r_noerror) {
    return {.outcome = (flags & kCode) == ns_r_nxdomain ? Outcome::kNoSuchName : Outcome::kRefused};
  }
  for (int i = 0; i < questions && !reader.IsAtEnd(); ++i) {
    reader.SkipName();
    reader.Take(kQuestionTail);
  }
  NameAnswer answer{.outcome = Outcome::kAnswered};
  for (int i = 0; i < answers && !reader.IsAtEnd(); ++i) {
    reader.SkipName();
    const std::uint16_t type = reader.Number();
    reader.Take(2 + 4);  // class and lifetime
    const std::span<const std::uint8_t> data = reader.Take(reader.Number());
    const std::size_t size = family == Family::kIpv4 ? NS_INADDRSZ : NS_IN6ADDRSZ;
    if (type == TypeOf(family) && data.size() == size) {
      answer.addresses.emplace_back(data);
    }
  }
  if (answer.addresses.empty() && (flags & kTruncated) != 0) {
    answer.outcome = Outcome::kRefused;
  }
  return answer;
}

// Returns a socket in `ns` that is connected to the server; nullopt if there is no way there.
std::optional<UniqueFd> ConnectTo(const netlink::Netns& ns, const Ip& server) {
  const SocketAddress address(server, NS_DEFAULTPORT);
  UniqueFd socket;
  netlink::InNetns(ns, [&] {
    socket = UniqueFd(::socket(
        address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
  });
  if (!socket) {
    throw ErrnoError(Code::kKernel, "cannot open a socket for a name server");
  }
  return ::connect(socket.get(), address.get(), address.size) == 0
             ? std::optional(std::move(socket))
             : std::nullopt;
}

}  // namespace

NameAnswer AskNameServer(const netlink::Netns& ns,
                         const Ip& server,
                         const std::string& name,
                         Family family,
                         Deadline deadline) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const auto id = static_cast<std::uint16_t>(StableHash(Cat(now, ' ', ::getpid())));
  const std::optional<Bytes> query = QueryFor(name, family, id);
  if (!query) {
    return {.outcome = Outcome::kNoSuchName};
  }
  const std::optional<UniqueFd> socket = ConnectTo(ns, server);
  if (!socket || ::send(socket->get(), query->data(), query->size(), 0) < 0) {
    return {.outcome = Outcome::kUnreachable};
  }
  for (;;) {
    pollfd waiting{.fd = socket->get(), .events = POLLIN, .revents = 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) <= 0) {
      return {};
    }
    std::array<std::uint8_t, 4096> bytes{};
    const ssize_t size = ::recv(socket->get(), bytes.data(), bytes.size(), 0);
    if (size < 0 && errno != EAGAIN && errno != EINTR) {
      return {.outcome = Outcome::kUnreachable};  // an ICMP error: nobody listens, or no way
    }
    // Somebody may answer who was not asked: the id must be ours.
    if (size >= NS_HFIXEDSZ && bytes[0] == (*query)[0] && bytes[1] == (*query)[1]) {
      return ReadAnswer(std::span(bytes).first(static_cast<std::size_t>(size)), family);
    }
  }
}

}  // namespace nomad_bridge::sockets
