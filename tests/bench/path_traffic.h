// Traffic through a node's rules: what a packet of an established connection, a new connection, a
// datagram and a stream take.
//
// How     Both ends are in this process, so that nobody has to be woken: what is measured is the
//         packets' way, and neither the scheduler nor a second processor.
// Shapes  Microseconds each. Addresses are text of IPv4.
// Errors  Error if nothing gets through.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <netinet/in.h>

#include "base/fd.h"
#include "netlink/core/netns.h"

namespace nomad_bridge::bench {

class PathLine {
 public:
  struct End {
    std::string netns;  // its path
    std::uint16_t port = 80;
  };

  // From `client` to `address` and `port`, which lead to `server`.
  PathLine(const std::string& client,
           const End& server,
           const std::string& address,
           std::uint16_t port);

  // One byte there and back, on a connection that stands.
  [[nodiscard]] double RoundTrip() const;
  // Made, and reset.
  [[nodiscard]] double NewConnection() const;
  // 64 bytes, one way, of a flow that stands.
  [[nodiscard]] double Datagram() const;
  // 64 KiB, one way, on a connection that stands.
  [[nodiscard]] double Stream() const;

 private:
  struct Connection {
    UniqueFd near;
    UniqueFd far;
  };
  [[nodiscard]] Connection Connect() const;
  [[nodiscard]] UniqueFd ConnectedDatagrams() const;

  netlink::Netns client_;
  sockaddr_in to_;
  UniqueFd listener_;
  UniqueFd datagrams_;
};

// What is measured of a way, in the order of the tables.
struct PathLoad {
  const char* name;
  double (PathLine::*measure)() const;
};
inline constexpr std::array<PathLoad, 4> kPathLoads = {
    PathLoad{.name = "round trip", .measure = &PathLine::RoundTrip},
    PathLoad{.name = "new connection", .measure = &PathLine::NewConnection},
    PathLoad{.name = "64-byte datagram", .measure = &PathLine::Datagram},
    PathLoad{.name = "64 KiB of a stream", .measure = &PathLine::Stream}};

}  // namespace nomad_bridge::bench
