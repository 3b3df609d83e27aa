#include "netlink/core/request_socket.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <linux/netlink.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <sys/socket.h>

#include "base/text.h"

namespace nomad_bridge::netlink {
namespace {

// A dump is interrupted whenever what it lists changes meanwhile; that it happens this often in a
// row means that it will never end.
constexpr int kMostInterruptions = 200;
constexpr std::size_t kReceiveBytes = 65536;  // more than the kernel ever puts into one datagram

// What one request has brought so far. libnl's callbacks fill it and never throw: they are called
// from C.
struct Exchange {
  unsigned int sequence = 0;
  bool expects_more = false;  // an acknowledgement or the end of a dump is still to come
  bool done = false;
  bool interrupted = false;
  Reply answer;
};

Exchange& ExchangeOf(void* argument) {
  return *static_cast<Exchange*>(argument);
}

// Ends the exchange with `error` (negative, as the kernel says it) and the words after `fixed_size`
// bytes of payload.
void Finish(Exchange& exchange, const nlmsghdr* message, int error, std::size_t fixed_size) {
  exchange.done = true;
  exchange.answer.error = -error;
  if ((message->nlmsg_flags & NLM_F_ACK_TLVS) != 0) {
    exchange.answer.words = Attributes(message, fixed_size).Text(NLMSGERR_ATTR_MSG);
  }
}

int OnSequence(nl_msg* message, void* argument) {
  return nlmsg_hdr(message)->nlmsg_seq == ExchangeOf(argument).sequence ? NL_OK : NL_SKIP;
}

int OnMessage(nl_msg* message, void* argument) {
  Exchange& exchange = ExchangeOf(argument);
  nlmsg_get(message);  // a second owner: libnl drops its own after this call
  exchange.answer.messages.emplace_back(message);
  exchange.done = !exchange.expects_more;
  return NL_OK;
}

int OnAcknowledged(nl_msg* /*message*/, void* argument) {
  ExchangeOf(argument).done = true;
  return NL_STOP;
}

// NLMSG_DONE carries an errno of its own, for a dump that failed on its way.
int OnDumpEnd(nl_msg* message, void* argument) {
  const nlmsghdr* const header = nlmsg_hdr(message);
  const int* const error = HeadOf<int>(header);
  Finish(ExchangeOf(argument), header, error != nullptr ? *error : 0, sizeof(int));
  return NL_STOP;
}

int OnInterrupted(nl_msg* /*message*/, void* argument) {
  ExchangeOf(argument).interrupted = true;
  return NL_OK;
}

int OnRefused(sockaddr_nl* /*from*/, nlmsgerr* refusal, void* argument) {
  // The refusal is the payload of a message that libnl does not hand over.
  const auto* const header = static_cast<const nlmsghdr*>(static_cast<const void*>(
      static_cast<const char*>(static_cast<const void*>(refusal)) - NLMSG_HDRLEN));
  // The request comes back whole, unless NETLINK_CAP_ACK cut it to its header.
  const std::size_t echoed =
      (header->nlmsg_flags & NLM_F_CAPPED) != 0 ? 0 : refusal->msg.nlmsg_len - NLMSG_HDRLEN;
  Finish(ExchangeOf(argument), header, refusal->error, sizeof(nlmsgerr) + echoed);
  return NL_STOP;
}

NlCallbacks CallbacksInto(Exchange& exchange) {
  NlCallbacks callbacks(nl_cb_alloc(NL_CB_DEFAULT));
  if (callbacks == nullptr) {
    throw std::bad_alloc();
  }
  const auto hook = [&](nl_cb_type type, nl_recvmsg_msg_cb_t act) {
    nl_cb_set(callbacks.get(), type, NL_CB_CUSTOM, act, &exchange);
  };
  hook(NL_CB_SEQ_CHECK, OnSequence);
  hook(NL_CB_VALID, OnMessage);
  hook(NL_CB_ACK, OnAcknowledged);
  hook(NL_CB_FINISH, OnDumpEnd);
  hook(NL_CB_DUMP_INTR, OnInterrupted);
  nl_cb_err(callbacks.get(), NL_CB_CUSTOM, OnRefused, &exchange);
  return callbacks;
}

Error Broken(int libnl_error) {
  return {Code::kKernel, "cannot talk to the kernel over netlink", nl_geterror(libnl_error)};
}

// Sends `request` once and reads until it is answered.
Exchange Converse(nl_sock* socket, const Message& request) {
  Exchange exchange{.expects_more = (request.flags() & (NLM_F_ACK | NLM_F_DUMP)) != 0};
  nlmsghdr* const header = nlmsg_hdr(request.get());
  header->nlmsg_seq = NL_AUTO_SEQ;  // a new one for each time it is sent
  const int sent = nl_send_auto(socket, request.get());
  if (sent < 0) {
    throw Broken(sent);
  }
  exchange.sequence = header->nlmsg_seq;
  const NlCallbacks callbacks = CallbacksInto(exchange);
  while (!exchange.done) {
    const int received = nl_recvmsgs(socket, callbacks.get());
    if (received < 0 && !exchange.done) {
      throw Broken(received);
    }
  }
  return exchange;
}

NlSocket OpenHere(int protocol) {
  NlSocket socket(nl_socket_alloc());
  if (socket == nullptr) {
    throw std::bad_alloc();
  }
  // Each request says itself what it wants for an answer, and one buffer holds the largest: no
  // peeking at sizes.
  nl_socket_disable_auto_ack(socket.get());
  nl_socket_disable_msg_peek(socket.get());
  nl_socket_set_msg_buf_size(socket.get(), kReceiveBytes);
  const int connected = nl_connect(socket.get(), protocol);
  if (connected < 0) {
    throw Broken(connected);
  }
  const int on = 1;
  const int fd = nl_socket_get_fd(socket.get());
  for (const int option : {NETLINK_EXT_ACK, NETLINK_CAP_ACK, NETLINK_GET_STRICT_CHK}) {
    // All three are older than the oldest kernel we run on; without them answers are only wordier
    // or poorer.
    static_cast<void>(::setsockopt(fd, SOL_NETLINK, option, &on, sizeof(on)));
  }
  return socket;
}

}  // namespace

std::string Reply::Details() const {
  if (words.empty()) {
    return ErrnoText(error);
  }
  const char* const name = ::strerrorname_np(error);
  return Cat(words, " (", name != nullptr ? name : "unknown errno", ')');
}

RequestSocket RequestSocket::In(const Netns& ns, int protocol) {
  NlSocket socket;
  InNetns(ns, [&] { socket = OpenHere(protocol); });
  return RequestSocket(std::move(socket));
}

Reply RequestSocket::Transact(const Message& request) {
  for (int i = 0; i < kMostInterruptions; ++i) {
    Exchange exchange = Converse(socket_.get(), request);
    if (!exchange.interrupted) {
      return std::move(exchange.answer);
    }
  }
  return {.error = EINTR, .words = "the list kept changing while it was read"};
}

std::vector<NlMessage> RequestSocket::TransactOrThrow(const Message& request,
                                                      const std::string& what) {
  Reply answer = Transact(request);
  if (answer.error != 0) {
    throw RequestError(what, answer);
  }
  return std::move(answer.messages);
}

Error RequestError(std::string what, const Reply& answer) {
  return {Code::kKernel, std::move(what), answer.Details()};
}

}  // namespace nomad_bridge::netlink
