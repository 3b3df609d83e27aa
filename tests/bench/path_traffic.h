// Traffic through a node's rules, as fast as it goes: what an established packet, a new connection
// and a stream cost.
//
// Shapes   Rates are per second: of round trips and of new connections, of bits, of datagrams that
//          arrived.
// Lives    The server is a child process that ends with its PathServer.
#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

namespace nomad_bridge::bench {

enum class Load { kRoundTrips, kConnections, kStream, kDatagrams };

// In the network namespace `netns` (a path), on all addresses and `port`, for TCP and UDP.
class PathServer {
 public:
  PathServer(const std::string& netns, std::uint16_t port);
  PathServer(const PathServer&) = delete;
  PathServer& operator=(const PathServer&) = delete;
  ~PathServer();

 private:
  pid_t pid_;
};

// A client in `netns` calls `address` (IPv4) for half a second; the rate of what it got through.
[[nodiscard]] double Measure(Load load,
                             const std::string& netns,
                             const std::string& address,
                             std::uint16_t port);

}  // namespace nomad_bridge::bench
