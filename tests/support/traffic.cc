#include "tests/support/traffic.h"

#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/config.h"

namespace nomad_bridge::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] int family() const { return storage.ss_family; }
};

Address Parse(const std::string& text, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(text.c_str(), Cat(port).c_str(), &hints, &found) != 0) {
    throw std::logic_error(Cat("'", text, "' is no address"));
  }
  Address address{.size = found->ai_addrlen};
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return address;
}

std::string Text(Address address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::getnameinfo(address.raw(), address.size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return text.data();
}

UniqueFd OpenSocket(Protocol protocol, int family, int flags) {
  const int type = protocol == Protocol::kUdp ? SOCK_DGRAM : SOCK_STREAM;
  const int number = protocol == Protocol::kSctp ? IPPROTO_SCTP : 0;
  UniqueFd fd(::socket(family, type | SOCK_CLOEXEC | flags, number));
  if (!fd) {
    throw ErrnoError(Code::kInternal, "cannot open a socket");
  }
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return fd;
}

void Bind(const UniqueFd& fd, const std::string& text, std::uint16_t port) {
  Address address = Parse(text, port);
  if (::bind(fd.get(), address.raw(), address.size) != 0) {
    throw ErrnoError(Code::kInternal, Cat("cannot bind to ", text, " port ", port));
  }
}

// Returns whether `fd` becomes ready for `events` before `deadline`.
bool Await(const UniqueFd& fd, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd event{.fd = fd.get(), .events = events, .revents = 0};
    const int ready = ::poll(&event, 1, static_cast<int>(std::max<long>(left, 0)));
    if (ready >= 0 || errno != EINTR) {
      return ready == 1;
    }
  }
}

// ---- the server's side: a child process that serves until it is killed

// Returns what a server sends: a line with its text, and a line with the caller's address.
std::string Answer(const std::string& text, const Address& caller) {
  return Cat(text, "\n", Text(caller), "\n");
}

void Note(int log, const Address& caller) {
  const std::string line = Cat(Text(caller), "\n");
  if (::write(log, line.data(), line.size()) < 0) {
    std::_Exit(EXIT_FAILURE);  // the parent is gone
  }
}

[[noreturn]] void ServeUdp(const UniqueFd& fd, int log, const std::string& text) {
  while (true) {
    Address caller;
    caller.size = sizeof caller.storage;
    std::array<char, 2048> buffer{};
    if (::recvfrom(fd.get(), buffer.data(), buffer.size(), 0, caller.raw(), &caller.size) < 0) {
      continue;  // an ICMP error of an earlier answer
    }
    Note(log, caller);
    const std::string answer = Answer(text, caller);
    ::sendto(fd.get(), answer.data(), answer.size(), 0, caller.raw(), caller.size);
  }
}

// One round: a new caller, or a line of an old one.
void ServeTcpOnce(std::vector<pollfd>& sockets, int log, const std::string& text) {
  if (::poll(sockets.data(), sockets.size(), -1) <= 0) {
    return;
  }
  for (std::size_t i = 1; i < sockets.size(); ++i) {
    std::array<char, 2048> buffer{};
    if (sockets[i].revents == 0) {
      continue;
    }
    const ssize_t got = ::recv(sockets[i].fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) {
      ::send(sockets[i].fd, buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
    } else if (got == 0 || errno != EAGAIN) {
      const UniqueFd gone(std::exchange(sockets[i].fd, -1));  // poll(2) skips -1
    }
  }
  if ((sockets[0].revents & POLLIN) != 0) {
    Address caller;
    caller.size = sizeof caller.storage;
    const int fd = ::accept4(sockets[0].fd, caller.raw(), &caller.size, SOCK_CLOEXEC);
    if (fd >= 0) {
      Note(log, caller);
      const std::string answer = Answer(text, caller);
      ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
      sockets.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    }
  }
}

[[noreturn]] void ServeTcp(const UniqueFd& fd, int log, const std::string& text) {
  std::vector<pollfd> sockets = {{.fd = fd.get(), .events = POLLIN, .revents = 0}};
  while (true) {
    ServeTcpOnce(sockets, log, text);
  }
}

// ---- the client's side

std::optional<UniqueFd> Connect(const Call& call, Clock::time_point deadline) {
  Address to = Parse(call.to, call.port);
  UniqueFd fd = OpenSocket(call.protocol, to.family(), SOCK_NONBLOCK);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_IP, IP_FREEBIND, &on, sizeof on);
  if (!call.from.empty() || call.from_port != 0) {
    const std::string any = to.family() == AF_INET ? "0.0.0.0" : "::";
    Bind(fd, call.from.empty() ? any : call.from, call.from_port);
  }
  if (::connect(fd.get(), to.raw(), to.size) != 0 && errno != EINPROGRESS) {
    return std::nullopt;
  }
  int error = 0;
  socklen_t size = sizeof error;
  if (!Await(fd, POLLOUT, deadline) ||
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    return std::nullopt;
  }
  return fd;
}

// Reads until `lines` line ends have come; nullopt if they do not.
std::optional<std::string> ReadLines(const UniqueFd& fd, long lines, Clock::time_point deadline) {
  std::string text;
  while (std::count(text.begin(), text.end(), '\n') < lines) {
    std::array<char, 8192> buffer{};
    if (!Await(fd, POLLIN, deadline)) {
      return std::nullopt;
    }
    const ssize_t got = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) {
      return std::nullopt;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

std::optional<Reply> AskHere(const Call& call) {
  const Clock::time_point deadline = Clock::now() + call.patience;
  const std::optional<UniqueFd> fd = Connect(call, deadline);
  if (!fd) {
    return std::nullopt;
  }
  if (call.protocol == Protocol::kUdp && ::send(fd->get(), "?", 1, MSG_NOSIGNAL) != 1) {
    return std::nullopt;
  }
  const std::optional<std::string> answer = ReadLines(*fd, 2, deadline);
  if (!answer) {
    return std::nullopt;
  }
  const std::vector<std::string> lines = Lines(*answer);
  return Reply{.text = lines.at(0), .seen_as = lines.at(1)};
}

}  // namespace

Server Server::Start(const Node& where,
                     Protocol protocol,
                     const std::string& address,
                     std::uint16_t port,
                     const std::string& text) {
  UniqueFd fd;
  where.Do([&] {
    fd = OpenSocket(protocol, Parse(address, port).family(), 0);
    Bind(fd, address, port);
  });
  if (protocol != Protocol::kUdp && ::listen(fd.get(), 64) != 0) {
    throw ErrnoError(Code::kInternal, "cannot listen");
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw ErrnoError(Code::kInternal, "cannot make a pipe");
  }
  UniqueFd log(ends[0]);
  const UniqueFd notes(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) {
    throw ErrnoError(Code::kInternal, "cannot fork");
  }
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (protocol != Protocol::kUdp) {
      ServeTcp(fd, notes.get(), text);
    }
    ServeUdp(fd, notes.get(), text);
  }
  return {pid, std::move(log)};
}

Server::Server(Server&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), log_(std::move(other.log_)) {}

Server::~Server() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

std::vector<std::string> Server::Heard() {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(log_.get(), buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return Lines(text);
}

std::ostream& operator<<(std::ostream& stream, const Reply& reply) {
  return stream << "'" << reply.text << "' to " << reply.seen_as;
}

std::optional<Reply> Ask(const Node& from, const Call& call) {
  std::optional<Reply> reply;
  from.Do([&] { reply = AskHere(call); });
  return reply;
}

std::string TcpText(const Node& from, const std::string& to, std::uint16_t port) {
  return Ask(from, {.to = to, .port = port}).value_or(Reply{}).text;
}

std::string UdpText(const Node& from, const std::string& to, std::uint16_t port) {
  return Ask(from, {.protocol = Protocol::kUdp, .to = to, .port = port}).value_or(Reply{}).text;
}

std::optional<Connection> Connection::Open(const Node& from, const Call& call) {
  std::optional<UniqueFd> fd;
  const Clock::time_point deadline = Clock::now() + call.patience;
  from.Do([&] { fd = Connect(call, deadline); });
  if (!fd || !ReadLines(*fd, 2, deadline)) {
    return std::nullopt;
  }
  return Connection(std::move(*fd));
}

bool Connection::Echoes(const std::string& line) {
  const std::string sent = Cat(line, "\n");
  const Clock::time_point deadline = Clock::now() + Call{}.patience;
  const bool came_back = ::send(fd_.get(), sent.data(), sent.size(), MSG_NOSIGNAL) > 0 &&
                         ReadLines(fd_, 1, deadline) == sent;
  // The acknowledgement goes out now. Delayed, it could meet a node whose rules the test has just
  // flushed, which knows no such connection and resets it.
  constexpr int kNow = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_QUICKACK, &kNow, sizeof(kNow));
  return came_back;
}

bool Ping(const Node& from, const std::string& to) {
  return from.Run({"ping", "-n", "-c", "1", "-i", "0.3", "-w", "3", to}).exit_code == 0;
}

}  // namespace nomad_bridge::test
