// The socket behind rtnetlink, nf_tables, conntrack and sock_diag: sends a request or a batch, and
// receives the replies.
//
// Namespace  The socket stays in the network namespace in which it was opened.
// Replies    are matched to their request by sequence number. An interrupted dump is repeated.
// Deadline   kTimeout per request, set once as SO_RCVTIMEO: waiting takes no system call of its
//            own.
// Errors     `what` is the msg of every error: "cannot list the addresses of 'eth0'". kTryAgain if
//            the kernel does not answer by the deadline; kKernel if the socket fails. A refusal of
//            the kernel is returned as a Reply; TransactOrThrow() throws it as kKernel.
// Ownership  Code outside netlink/ uses this only inside rtnl::Socket, nft::Socket and Conntrack.
//            Message and Reply are private to netlink/.
// Source     netlink(7): NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK, NLM_F_DUMP_INTR; libmnl.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "netlink/core/background_request.h"
#include "netlink/core/netns.h"

struct mnl_socket;
struct nlmsghdr;

namespace nomad_bridge::netlink {

class Message;
struct Reply;

class RequestSocket {
 public:
  // Opens a socket in `ns` for NETLINK_ROUTE, NETLINK_NETFILTER or NETLINK_SOCK_DIAG.
  [[nodiscard]] static RequestSocket In(const Netns& ns, int protocol);
  // Makes a socket that is not open: each use throws `why`.
  explicit RequestSocket(Error why) : why_closed_(std::move(why)) {}

  // Returns one message for a plain request, an acknowledgement for a request with NLM_F_ACK, all
  // messages for NLM_F_DUMP; or the kernel's refusal.
  [[nodiscard]] Reply Transact(const Message& request, const std::string& what);
  // Sends `count` requests that are answered by one message each, and returns the replies in order.
  // All are sent in one piece. `make` builds one request at a time, so that only one Message exists
  // at any time.
  [[nodiscard]] std::vector<Reply> TransactEach(std::size_t count,
                                                const std::function<Message(std::size_t)>& make,
                                                const std::string& what);
  // Like Transact(), but throws if the kernel refuses with an errno that is not in `expected`.
  Reply TransactOrThrow(const Message& request,
                        const std::string& what,
                        std::initializer_list<int> expected = {});

  // Sends `request` from a child process; see background_request.h.
  [[nodiscard]] std::optional<BackgroundRequest> SendInBackground(const Message& request,
                                                                  std::span<const int> kept);

  // For batches: returns the first of `count` sequence numbers that no other request uses.
  [[nodiscard]] std::uint32_t ReserveSequence(std::uint32_t count);
  // Sends `messages` in one piece, and calls `is_last` with each message that comes back, until it
  // returns true.
  void Exchange(std::span<const char> messages,
                const std::string& what,
                const std::function<bool(nlmsghdr&)>& is_last);

  [[nodiscard]] bool is_open() const { return !why_closed_; }
  [[nodiscard]] int fd() const;

 private:
  struct Closer {
    void operator()(mnl_socket* socket) const;
  };
  using Owned = std::unique_ptr<mnl_socket, Closer>;

  explicit RequestSocket(Owned socket) : socket_(std::move(socket)) {}

  [[nodiscard]] mnl_socket* Opened() const;

  Owned socket_;
  std::optional<Error> why_closed_;
  std::uint32_t sequence_ = 0;
};

}  // namespace nomad_bridge::netlink
