// One conversation with the kernel: a request goes out, everything that answers it comes back.
// Private to netlink/.
//
// Namespace  The socket stays in the network namespace in which it was opened.
// Replies    are told from strays by their sequence number, here and nowhere else. An interrupted
//            dump is asked again.
// Errors     What the kernel refuses is an Answer, for the caller knows which refusals are expected
//            and what it was doing. kKernel if the conversation itself breaks down.
// Source     netlink(7): NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK, NLM_F_DUMP_INTR.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "netlink/core/handles.h"
#include "netlink/core/message.h"
#include "netlink/core/netns.h"

namespace nomad_bridge::netlink {

// Moves only, for its messages have one owner.
struct Reply {
  int error = 0;      // errno, positive; 0: the kernel did it
  std::string words;  // what the kernel had to say about the error (extended ack); often nothing
  std::vector<NlMessage> messages;

  // "IPv6 is disabled on this device (EACCES)": the kernel's words, or else strerror's.
  [[nodiscard]] std::string Details() const;
};

class RequestSocket {
 public:
  // In `ns`, for NETLINK_ROUTE or NETLINK_NETFILTER.
  [[nodiscard]] static RequestSocket In(const Netns& ns, int protocol);

  // One answer message for a plain request, an acknowledgement for one with NLM_F_ACK, all messages
  // for NLM_F_DUMP.
  [[nodiscard]] Reply Transact(const Message& request);
  // The same, when any refusal is an error: throws kKernel with `what` as its msg.
  std::vector<NlMessage> TransactOrThrow(const Message& request, const std::string& what);

  [[nodiscard]] int fd() const { return nl_socket_get_fd(socket_.get()); }

 private:
  explicit RequestSocket(NlSocket socket) : socket_(std::move(socket)) {}
  NlSocket socket_;
};

// kKernel: `what` was refused with `answer`.
[[nodiscard]] Error RequestError(std::string what, const Reply& answer);

}  // namespace nomad_bridge::netlink
