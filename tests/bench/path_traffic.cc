#include "tests/bench/path_traffic.h"

#include <chrono>
#include <vector>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge::bench {
namespace {

constexpr std::size_t kStreamBytes = std::size_t{64} * 1024;
constexpr std::size_t kDatagramBytes = 64;

void Require(bool is_well, std::string_view what) {
  if (!is_well) {
    throw ErrnoError(Code::kInternal, std::string(what));
  }
}

sockaddr_in AddressOf(const std::string& address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  Require(::inet_pton(AF_INET, address.c_str(), &result.sin_addr) == 1, "no IPv4 address");
  return result;
}

const sockaddr* Generic(const sockaddr_in& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

sockaddr* Generic(sockaddr_in& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

void Set(const UniqueFd& socket, int level, int option, const auto& value) {
  Require(::setsockopt(socket.get(), level, option, &value, sizeof value) == 0,
          "cannot set up a socket");
}

// Connections are reset when they are closed: thousands that wait for their time would use up the
// ports.
void SetUp(const UniqueFd& socket, int type) {
  Require(static_cast<bool>(socket), "cannot make a socket");
  Set(socket, SOL_SOCKET, SO_RCVTIMEO, timeval{.tv_sec = 2, .tv_usec = 0});
  if (type == SOCK_STREAM) {
    Set(socket, SOL_SOCKET, SO_LINGER, linger{.l_onoff = 1, .l_linger = 0});
    Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  }
}

UniqueFd Socket(int type) {
  UniqueFd socket(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
  SetUp(socket, type);
  return socket;
}

UniqueFd Listening(int type, std::uint16_t port) {
  UniqueFd socket = Socket(type);
  const sockaddr_in any = AddressOf("0.0.0.0", port);
  Require(::bind(socket.get(), Generic(any), sizeof any) == 0 &&
              (type != SOCK_STREAM || ::listen(socket.get(), SOMAXCONN) == 0),
          "cannot listen");
  return socket;
}

void Pass(const UniqueFd& from, const UniqueFd& to, std::vector<char>& bytes) {
  Require(::send(from.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()) &&
              ::recv(to.get(), bytes.data(), bytes.size(), MSG_WAITALL) ==
                  static_cast<ssize_t>(bytes.size()),
          "nothing gets through");
}

// Microseconds of `act`, the mean of `count`, or of as many as a second has room for: an emulated
// machine is slow.
template <typename Act>
double TimeOf(int count, const Act& act) {
  using Microseconds = std::chrono::duration<double, std::micro>;
  const auto begun = std::chrono::steady_clock::now();
  Microseconds took{};
  int done = 0;
  while (done < count && took < std::chrono::seconds(1)) {
    act();
    ++done;
    took = std::chrono::steady_clock::now() - begun;
  }
  return took.count() / done;
}

}  // namespace

PathLine::PathLine(const std::string& client,
                   const End& server,
                   const std::string& address,
                   std::uint16_t port)
    : client_(netlink::Netns::Open(client)), to_(AddressOf(address, port)) {
  netlink::InNetns(netlink::Netns::Open(server.netns), [&] {
    listener_ = Listening(SOCK_STREAM, server.port);
    datagrams_ = Listening(SOCK_DGRAM, server.port);
  });
}

PathLine::Connection PathLine::Connect() const {
  Connection connection;
  netlink::InNetns(client_, [&] { connection.near = Socket(SOCK_STREAM); });
  Require(::connect(connection.near.get(), Generic(to_), sizeof to_) == 0, "cannot connect");
  connection.far = UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  SetUp(connection.far, SOCK_STREAM);
  return connection;
}

UniqueFd PathLine::ConnectedDatagrams() const {
  UniqueFd near;
  netlink::InNetns(client_, [&] { near = Socket(SOCK_DGRAM); });
  Require(::connect(near.get(), Generic(to_), sizeof to_) == 0, "cannot connect");
  return near;
}

double PathLine::RoundTrip() const {
  constexpr int kCount = 20000;
  const Connection connection = Connect();
  std::vector<char> byte(1);
  return TimeOf(kCount, [&] {
    Pass(connection.near, connection.far, byte);
    Pass(connection.far, connection.near, byte);
  });
}

double PathLine::NewConnection() const {
  constexpr int kCount = 3000;
  double microseconds = 0;
  netlink::InNetns(client_, [&] {  // once, and not for each
    microseconds = TimeOf(kCount, [&] { static_cast<void>(Connect()); });
  });
  return microseconds;
}

double PathLine::Datagram() const {
  constexpr int kCount = 20000;
  const UniqueFd near = ConnectedDatagrams();
  std::vector<char> bytes(kDatagramBytes);
  // There and back: neighbours are asked for, and for conntrack the flow is established.
  Require(::send(near.get(), bytes.data(), bytes.size(), 0) > 0, "cannot send");
  sockaddr_in sender{};
  socklen_t size = sizeof sender;
  Require(::recvfrom(datagrams_.get(), bytes.data(), bytes.size(), 0, Generic(sender), &size) > 0,
          "nothing gets through");
  Require(::sendto(datagrams_.get(), bytes.data(), bytes.size(), 0, Generic(sender), size) > 0 &&
              ::recv(near.get(), bytes.data(), bytes.size(), 0) > 0,
          "no answer gets through");
  return TimeOf(kCount, [&] { Pass(near, datagrams_, bytes); });
}

double PathLine::Stream() const {
  constexpr int kCount = 5000;
  const Connection connection = Connect();
  std::vector<char> bytes(kStreamBytes);
  return TimeOf(kCount, [&] { Pass(connection.near, connection.far, bytes); });
}

}  // namespace nomad_bridge::bench
