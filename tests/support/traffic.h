// Traffic between the nodes of a test: our own servers, clients and pings, with sockets opened
// inside a node.
//
// Shapes   A server answers every client with its text and with the address that it saw. On TCP and
//          SCTP it then sends back what it receives. Addresses are text of either family, ports are
//          in host byte order.
// Limits   A client gives up after its patience. No answer, a refusal and an unreachable server all
//          give nullopt.
// Lives    A server is a child process that ends with its Server.
#pragma once

#include <sys/types.h>

#include "tests/support/node.h"

namespace nomad_bridge::test {

enum class Protocol { kTcp, kUdp, kSctp };

class Server {
 public:
  // Starts a server that listens when this returns. `address` may be "0.0.0.0" or "::".
  [[nodiscard]] static Server Start(const Node& where,
                                    Protocol protocol,
                                    const std::string& address,
                                    std::uint16_t port,
                                    const std::string& text);
  Server(Server&& other) noexcept;
  Server& operator=(Server&&) = delete;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // Returns the source addresses of all clients since the last call, in order, even if no answer
  // can reach them.
  [[nodiscard]] std::vector<std::string> Heard();

 private:
  Server(pid_t pid, UniqueFd log) : pid_(pid), log_(std::move(log)) {}
  pid_t pid_;
  UniqueFd log_;
};

struct Call {
  Protocol protocol = Protocol::kTcp;
  std::string to;
  std::uint16_t port = 0;
  std::string from = {};        // source address; it need not be one of the node's own
  std::uint16_t from_port = 0;  // 0: any
  std::chrono::milliseconds patience{1500};
};

struct Reply {
  std::string text;
  std::string seen_as;  // the caller's address as the server saw it

  bool operator==(const Reply&) const = default;
};
std::ostream& operator<<(std::ostream& stream, const Reply& reply);

// Calls a server once.
[[nodiscard]] std::optional<Reply> Ask(const Node& from, const Call& call);
// Ask() over TCP or UDP, for the text alone: "" if nothing came.
[[nodiscard]] std::string TcpText(const Node& from, const std::string& to, std::uint16_t port);
[[nodiscard]] std::string UdpText(const Node& from, const std::string& to, std::uint16_t port);

// A TCP connection that stays, to show that something does not disturb it.
class Connection {
 public:
  [[nodiscard]] static std::optional<Connection> Open(const Node& from, const Call& call);
  // Sends a line and waits for it to come back.
  [[nodiscard]] bool Echoes(const std::string& line);

 private:
  explicit Connection(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// Sends echo requests for three seconds, until one is answered: long enough for a second neighbour
// request.
[[nodiscard]] bool Ping(const Node& from, const std::string& to);

}  // namespace nomad_bridge::test
