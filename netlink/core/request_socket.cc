// This file decides without a library's help which messages belong to a request and which message
// ends it. libmnl's mnl_cb_run() reports a refusal as an errno without the kernel's message
// (extended ack), and stops at a batch's first refusal. libnl's nl_recvmsgs() leaves both decisions
// to five callbacks, and allocates memory for each datagram.
#include "netlink/core/request_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/text.h"
#include "netlink/core/message.h"

namespace nomad_bridge::netlink {
namespace {

constexpr std::size_t kReceiveBytes = 65536;  // more than the kernel ever puts into one datagram

bool HasPassed(Deadline deadline) {
  return std::chrono::steady_clock::now() > deadline;
}

Error TimedOut(const std::string& what, std::string why = "the kernel did not answer in time") {
  return {Code::kTryAgain, what, std::move(why)};
}

std::span<const char> BytesOf(const Message& request) {
  const nlmsghdr& header = *request.header();
  return {static_cast<const char*>(static_cast<const void*>(&header)), header.nlmsg_len};
}

// Adds `message` to `reply`. Returns whether the message ends the request.
bool ReadInto(Reply& reply, nlmsghdr& message) {
  const bool ends = message.nlmsg_type == NLMSG_ERROR || message.nlmsg_type == NLMSG_DONE;
  if (ends) {
    reply.ReadOutcome(message);
  } else {
    reply.Add(message);
  }
  return ends;
}

}  // namespace

void RequestSocket::Closer::operator()(mnl_socket* socket) const {
  mnl_socket_close(socket);
}

RequestSocket RequestSocket::In(const Netns& ns, int protocol) {
  Owned socket;
  InNetns(ns, [&] { socket.reset(mnl_socket_open2(protocol, SOCK_CLOEXEC)); });
  const timeval timeout{.tv_sec = kTimeout.count(), .tv_usec = 0};
  if (!socket ||
      ::setsockopt(
          mnl_socket_get_fd(socket.get()), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) !=
          0) {
    if (protocol != NETLINK_NETFILTER) {
      throw ErrnoError(Code::kKernel, "cannot open a netlink socket");
    }
    throw Error(
        Code::kKernel,
        "cannot open a socket for nf_tables",
        Cat(ErrnoText(errno),
            ": the kernel has no module nfnetlink, or a seccomp filter forbids its socket"),
        Fix::Advice("modprobe nf_tables; in a container, or a unit with a seccomp filter, let that "
                    "allow sockets of NETLINK_NETFILTER"));
  }
  for (const int option : {NETLINK_EXT_ACK, NETLINK_CAP_ACK, NETLINK_GET_STRICT_CHK}) {
    if (option == NETLINK_GET_STRICT_CHK && protocol != NETLINK_ROUTE) {
      continue;  // it affects lists of rtnetlink only
    }
    // All three options are older than the oldest kernel we support; without them replies are only
    // longer or say less.
    int on = 1;
    static_cast<void>(mnl_socket_setsockopt(socket.get(), option, &on, sizeof on));
  }
  return RequestSocket(std::move(socket));
}

mnl_socket* RequestSocket::Opened() const {
  if (why_closed_) {
    throw Error(*why_closed_);
  }
  return socket_.get();
}

int RequestSocket::fd() const {
  return mnl_socket_get_fd(Opened());
}

std::uint32_t RequestSocket::ReserveSequence(std::uint32_t count) {
  const std::uint32_t first = sequence_ + 1;
  sequence_ += count;
  return first;
}

void RequestSocket::Exchange(std::span<const char> messages,
                             const std::string& what,
                             const std::function<bool(nlmsghdr&)>& is_last) {
  mnl_socket* const socket = Opened();
  const Deadline deadline = FromNow(kTimeout);
  if (mnl_socket_sendto(socket, messages.data(), messages.size()) < 0) {
    throw ErrnoError(Code::kKernel, what);
  }
  alignas(nlmsghdr) std::array<char, kReceiveBytes> buffer;
  for (bool finished = false;;) {
    const ssize_t got = mnl_socket_recvfrom(socket, buffer.data(), buffer.size());
    if (got < 0 && errno != EINTR) {
      throw errno == EAGAIN ? TimedOut(what) : ErrnoError(Code::kKernel, what);
    }
    ForEachIn(
        buffer.data(), got, [&](nlmsghdr& message) { finished = is_last(message) || finished; });
    if (finished) {
      return;
    }
    if (HasPassed(deadline)) {  // only replies to other requests come
      throw TimedOut(what);
    }
  }
}

std::optional<BackgroundRequest> RequestSocket::SendInBackground(const Message& request,
                                                                 std::span<const int> kept) {
  request.header()->nlmsg_seq = ReserveSequence(1);
  return BackgroundRequest::Start(BytesOf(request), fd(), kept);
}

Reply RequestSocket::Transact(const Message& request, const std::string& what) {
  nlmsghdr& header = *request.header();
  const bool expects_more = (header.nlmsg_flags & (NLM_F_ACK | NLM_F_DUMP)) != 0;
  const std::span<const char> bytes = BytesOf(request);
  for (const Deadline deadline = FromNow(kTimeout);;) {
    header.nlmsg_seq = ReserveSequence(1);
    Reply reply;
    bool interrupted = false;  // the list changed meanwhile: it may be half old, half new
    Exchange(bytes, what, [&](nlmsghdr& message) {
      if (message.nlmsg_seq != header.nlmsg_seq) {
        return false;
      }
      interrupted = interrupted || (message.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
      return ReadInto(reply, message) || !expects_more;
    });
    if (!interrupted && reply.error != EINTR) {
      return reply;
    }
    if (HasPassed(deadline)) {
      throw TimedOut(what, "the list kept changing while it was read");
    }
  }
}

std::vector<Reply> RequestSocket::TransactEach(std::size_t count,
                                               const std::function<Message(std::size_t)>& make,
                                               const std::string& what) {
  std::vector<Reply> replies(count);
  if (count == 0) {
    return replies;
  }
  const std::uint32_t first = ReserveSequence(static_cast<std::uint32_t>(count));
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const Message request = make(i);
    request.header()->nlmsg_seq = first + static_cast<std::uint32_t>(i);
    const std::span<const char> of_request = BytesOf(request);
    bytes.append(of_request.data(), of_request.size());
    bytes.resize(NLMSG_ALIGN(bytes.size()));
  }
  std::size_t left = count;
  Exchange(bytes, what, [&](nlmsghdr& message) {
    if (const std::uint32_t place = message.nlmsg_seq - first; place < replies.size()) {
      ReadInto(replies[place], message);
      --left;
    }
    return left == 0;
  });
  return replies;
}

Reply RequestSocket::TransactOrThrow(const Message& request,
                                     const std::string& what,
                                     std::initializer_list<int> expected) {
  Reply reply = Transact(request, what);
  if (reply.error != 0 && std::ranges::find(expected, reply.error) == expected.end()) {
    throw NetlinkError(what, reply);
  }
  return reply;
}

}  // namespace nomad_bridge::netlink
