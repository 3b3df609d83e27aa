#include "tests/bench/path_traffic.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

namespace nomad_bridge::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kHowLong{500};
constexpr int kBacklog = 1024;
constexpr std::size_t kStreamBytes = 128 * 1024;
constexpr std::size_t kDatagramBytes = 64;
constexpr int kAtOnce = 64;  // datagrams of one system call
// What the client writes first on a TCP connection.
constexpr char kEcho = 'e';
constexpr char kSink = 's';
constexpr char kCountDatagrams = 'd';

[[noreturn]] void Fail(const std::string& what) {
  throw ErrnoError(Code::kInternal, what);
}

void EnterNetns(const std::string& path) {
  const UniqueFd netns(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!netns || ::setns(netns.get(), CLONE_NEWNET) != 0) {
    Fail(Cat("cannot enter ", path));
  }
}

sockaddr_in Address(const std::string& address, std::uint16_t port) {
  sockaddr_in result{.sin_family = AF_INET, .sin_port = htons(port)};
  ::inet_pton(AF_INET, address.c_str(), &result.sin_addr);
  return result;
}

const sockaddr* Generic(const sockaddr_in& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

UniqueFd Bind(int type, std::uint16_t port) {
  UniqueFd socket(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Address("0.0.0.0", port);
  if (!socket || ::bind(socket.get(), Generic(address), sizeof address) != 0 ||
      (type == SOCK_STREAM && ::listen(socket.get(), kBacklog) != 0)) {
    Fail(Cat("cannot listen on port ", port));
  }
  return socket;
}

UniqueFd Connect(int type, const std::string& to, std::uint16_t port) {
  UniqueFd socket(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Address(to, port);
  if (!socket || ::connect(socket.get(), Generic(address), sizeof address) != 0) {
    Fail(Format("cannot connect to {}:{}", to, port));
  }
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

// `count` datagrams at a time, to be sent or received.
struct Datagrams {
  std::array<std::array<char, kDatagramBytes>, kAtOnce> bytes{};
  std::array<iovec, kAtOnce> pieces{};
  std::array<mmsghdr, kAtOnce> messages{};

  Datagrams() {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      pieces[i] = {.iov_base = bytes[i].data(), .iov_len = bytes[i].size()};
      messages[i].msg_hdr.msg_iov = &pieces[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
  }
};

// What a client asked for on `connection`, until it closes it.
void Answer(const UniqueFd& connection, std::uint64_t& datagrams) {
  std::vector<char> buffer(kStreamBytes);
  char wish = 0;
  if (::read(connection.get(), &wish, 1) != 1) {
    return;  // a connection for its own sake
  }
  if (wish == kCountDatagrams) {
    const std::uint64_t count = std::exchange(datagrams, 0);
    static_cast<void>(!::write(connection.get(), &count, sizeof count));
  }
  while (true) {
    const ssize_t got = ::read(connection.get(), buffer.data(), buffer.size());
    if (got <= 0 || (wish == kEcho &&
                     ::write(connection.get(), buffer.data(), static_cast<std::size_t>(got)) < 0)) {
      return;
    }
  }
}

[[noreturn]] void Serve(const UniqueFd& tcp, const UniqueFd& udp) {
  Datagrams received;
  std::uint64_t datagrams = 0;
  while (true) {
    std::array<pollfd, 2> waiting{{{.fd = udp.get(), .events = POLLIN, .revents = 0},
                                   {.fd = tcp.get(), .events = POLLIN, .revents = 0}}};
    ::poll(waiting.data(), waiting.size(), -1);
    for (int got = 1; got > 0;) {
      got = ::recvmmsg(udp.get(), received.messages.data(), kAtOnce, MSG_DONTWAIT, nullptr);
      datagrams += static_cast<std::uint64_t>(got > 0 ? got : 0);
    }
    if ((waiting[1].revents & POLLIN) != 0) {
      const UniqueFd connection(::accept4(tcp.get(), nullptr, nullptr, SOCK_CLOEXEC));
      Answer(connection, datagrams);
    }
  }
}

// How often `act`, which returns how much it did, got through in a second.
template <typename Act>
double RateOf(const Act& act) {
  const Clock::time_point begin = Clock::now();
  double done = 0;
  std::chrono::duration<double> took{};
  do {
    done += act();
    took = Clock::now() - begin;
  } while (took < kHowLong);
  return done / took.count();
}

double RoundTrips(const std::string& address, std::uint16_t port) {
  const UniqueFd connection = Connect(SOCK_STREAM, address, port);
  char byte = kEcho;
  static_cast<void>(!::write(connection.get(), &byte, 1));
  return RateOf([&] {
    if (::write(connection.get(), &byte, 1) != 1 || ::read(connection.get(), &byte, 1) != 1) {
      Fail("a connection broke");
    }
    return 1;
  });
}

double Connections(const std::string& address, std::uint16_t port) {
  return RateOf([&] {
    const UniqueFd connection = Connect(SOCK_STREAM, address, port);
    // Reset instead of closed: no port of the client's stays in TIME_WAIT.
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return 1;
  });
}

double Stream(const std::string& address, std::uint16_t port) {
  const UniqueFd connection = Connect(SOCK_STREAM, address, port);
  const std::vector<char> bytes(kStreamBytes, kSink);
  return RateOf([&] {
    constexpr int kBitsPerByte = 8;
    const ssize_t sent = ::write(connection.get(), bytes.data(), bytes.size());
    if (sent < 0) {
      Fail("a connection broke");
    }
    return static_cast<double>(sent) * kBitsPerByte;
  });
}

std::uint64_t CountDatagrams(const std::string& address, std::uint16_t port) {
  const UniqueFd connection = Connect(SOCK_STREAM, address, port);
  std::uint64_t count = 0;
  if (::write(connection.get(), &kCountDatagrams, 1) != 1 ||
      ::read(connection.get(), &count, sizeof count) != sizeof count) {
    Fail("a connection broke");
  }
  return count;
}

// Those that arrived: what the sender has too much is lost before the receiver's socket.
double ArrivedDatagrams(const std::string& address, std::uint16_t port) {
  const UniqueFd socket = Connect(SOCK_DGRAM, address, port);
  Datagrams sent;
  static_cast<void>(CountDatagrams(address, port));
  const Clock::time_point begin = Clock::now();
  RateOf([&] {
    const int done = ::sendmmsg(socket.get(), sent.messages.data(), kAtOnce, 0);
    return done > 0 ? done : 0;
  });
  const std::chrono::duration<double> took = Clock::now() - begin;
  return static_cast<double>(CountDatagrams(address, port)) / took.count();
}

double MeasureHere(Load load, const std::string& address, std::uint16_t port) {
  switch (load) {
    case Load::kRoundTrips:
      return RoundTrips(address, port);
    case Load::kConnections:
      return Connections(address, port);
    case Load::kStream:
      return Stream(address, port);
    case Load::kDatagrams:
      return ArrivedDatagrams(address, port);
  }
  std::abort();
}

// Runs `act` in a child process that is in `netns`.
template <typename Act>
pid_t StartIn(const std::string& netns, const Act& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      EnterNetns(netns);
      act();
      ::_exit(EXIT_SUCCESS);
    } catch (const std::exception& error) {
      std::cerr << error.what() << '\n';
      ::_exit(EXIT_FAILURE);
    }
  }
  return child;
}

std::pair<UniqueFd, UniqueFd> Pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    Fail("cannot make a pipe");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

PathServer::PathServer(const std::string& netns, std::uint16_t port) {
  auto [read_end, write_end] = Pipe();
  const int ready = write_end.get();
  pid_ = StartIn(netns, [&] {
    const UniqueFd tcp = Bind(SOCK_STREAM, port);
    const UniqueFd udp = Bind(SOCK_DGRAM, port);
    static_cast<void>(!::write(ready, ".", 1));
    Serve(tcp, udp);
  });
  write_end = UniqueFd();
  char byte = 0;
  if (::read(read_end.get(), &byte, 1) != 1) {
    throw std::runtime_error("the server did not start");
  }
}

PathServer::~PathServer() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

double Measure(Load load,
               const std::string& netns,
               const std::string& address,
               std::uint16_t port) {
  auto [read_end, write_end] = Pipe();
  const int result = write_end.get();
  const pid_t client = StartIn(netns, [&] {
    const double rate = MeasureHere(load, address, port);
    static_cast<void>(!::write(result, &rate, sizeof rate));
  });
  write_end = UniqueFd();
  double rate = 0;
  const bool has_rate = ::read(read_end.get(), &rate, sizeof rate) == sizeof rate;
  ::waitpid(client, nullptr, 0);
  if (!has_rate) {
    throw std::runtime_error("the client failed");
  }
  return rate;
}

}  // namespace nomad_bridge::bench
