#include "netlink/nft/trace.h"

#include <cerrno>
#include <utility>
#include <vector>

#include <libnftnl/trace.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include "base/error.h"
#include "netlink/core/message.h"

namespace nomad_bridge::nft {
namespace {

using NftnlTrace = netlink::Handle<nftnl_trace, nftnl_trace_free>;

constexpr std::size_t kMaxMessage = 64 << 10;

std::string TextOf(const nftnl_trace& trace, std::uint16_t attribute) {
  const char* const text =
      nftnl_trace_is_set(&trace, attribute) ? nftnl_trace_get_str(&trace, attribute) : nullptr;
  return text == nullptr ? "" : text;
}

// Returns a header, which only the first message of a base chain has; otherwise nothing.
Bytes HeaderOf(const nftnl_trace& trace, std::uint16_t attribute) {
  std::uint32_t size = 0;
  const void* const data = nftnl_trace_is_set(&trace, attribute)
                               ? nftnl_trace_get_data(&trace, attribute, &size)
                               : nullptr;
  const auto* const bytes = static_cast<const std::uint8_t*>(data);
  return data == nullptr ? Bytes() : Bytes(bytes, bytes + size);
}

// Returns nullptr for a message of another kind.
NftnlTrace ParseTrace(const nlmsghdr& message) {
  NftnlTrace trace(nftnl_trace_alloc());
  const bool is_trace = NFNL_MSG_TYPE(message.nlmsg_type) == NFT_MSG_TRACE &&
                        nftnl_trace_nlmsg_parse(&message, trace.get()) == 0;
  return is_trace ? std::move(trace) : nullptr;
}

// Returns the packet's number, headers and mark, as far as `trace` has them.
TraceStep ReadHeaders(const nftnl_trace& trace) {
  return {.packet = nftnl_trace_get_u32(&trace, NFTNL_TRACE_ID),
          .network = HeaderOf(trace, NFTNL_TRACE_NETWORK_HEADER),
          .transport = HeaderOf(trace, NFTNL_TRACE_TRANSPORT_HEADER),
          .mark = nftnl_trace_is_set(&trace, NFTNL_TRACE_MARK)
                      ? nftnl_trace_get_u32(&trace, NFTNL_TRACE_MARK)
                      : 0,
          .input_link = nftnl_trace_is_set(&trace, NFTNL_TRACE_IIF)
                            ? static_cast<int>(nftnl_trace_get_u32(&trace, NFTNL_TRACE_IIF))
                            : 0};
}

// Returns nullopt if `trace` is no step: the end of a chain.
std::optional<TraceStep> ReadStep(const nftnl_trace& trace) {
  const std::uint32_t type = nftnl_trace_get_u32(&trace, NFTNL_TRACE_TYPE);
  const bool is_policy = type == NFT_TRACETYPE_POLICY;
  const std::uint16_t attribute = is_policy ? NFTNL_TRACE_POLICY : NFTNL_TRACE_VERDICT;
  const bool is_rule =
      type == NFT_TRACETYPE_RULE && nftnl_trace_is_set(&trace, NFTNL_TRACE_RULE_HANDLE);
  if (!(is_policy || is_rule) || !nftnl_trace_is_set(&trace, attribute)) {
    return std::nullopt;
  }
  // A final verdict may have a number in its upper bits, such as the number of a queue.
  constexpr std::int32_t kVerdictMask = 0xff;
  const auto code = static_cast<std::int32_t>(nftnl_trace_get_u32(&trace, attribute));
  TraceStep step = ReadHeaders(trace);
  step.table = {.family = static_cast<TableFamily>(nftnl_trace_get_u32(&trace, NFTNL_TRACE_FAMILY)),
                .name = TextOf(trace, NFTNL_TRACE_TABLE)};
  step.chain = TextOf(trace, NFTNL_TRACE_CHAIN);
  step.handle = is_policy ? 0 : nftnl_trace_get_u64(&trace, NFTNL_TRACE_RULE_HANDLE);
  step.verdict = {.code = static_cast<Verdict::Code>(code < 0 ? code : code & kVerdictMask),
                  .chain = TextOf(trace, NFTNL_TRACE_JUMP_TARGET)};
  return step;
}

}  // namespace

TraceEvents TraceEvents::In(const netlink::Netns& ns) {
  UniqueFd events;
  netlink::InNetns(ns, [&] {
    events = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  });
  const int group = NFNLGRP_NFTRACE;
  const int bytes = 4 << 20;
  // Without an address of its own the socket counts as the kernel's, and the kernel sends nothing
  // to itself. bind(2) gives it one.
  const union {
    sockaddr any;
    sockaddr_nl netlink;
  } own = {.netlink = {.nl_family = AF_NETLINK}};
  if (!events || ::bind(events.get(), &own.any, sizeof own.netlink) != 0 ||
      ::setsockopt(events.get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0 ||
      ::setsockopt(events.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0) {
    throw ErrnoError(Code::kKernel, "cannot listen to the trace of nf_tables");
  }
  return TraceEvents(std::move(events));
}

bool TraceEvents::Take(const std::function<void(TraceStep)>& take) {
  std::vector<char> buffer(kMaxMessage);
  bool is_complete = true;
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
      return is_complete;
    }
    if (got < 0 && errno != EINTR && errno != ENOBUFS) {
      throw ErrnoError(Code::kKernel, "cannot read the trace of nf_tables");
    }
    is_complete = is_complete && !(got < 0 && errno == ENOBUFS);
    netlink::ForEachIn(
        buffer.data(), got, [&](const nlmsghdr& message) { TakeOne(message, take); });
  }
}

// In a base chain without rules, the end of the chain comes before its policy, and only that
// message has the headers.
void TraceEvents::TakeOne(const nlmsghdr& message, const std::function<void(TraceStep)>& take) {
  const NftnlTrace trace = ParseTrace(message);
  if (trace == nullptr) {
    return;
  }
  std::optional<TraceStep> step = ReadStep(*trace);
  if (!step) {
    headers_ = ReadHeaders(*trace);
    return;
  }
  if (step->network.empty() && step->packet == headers_.packet) {
    step->network = std::move(headers_.network);
    step->transport = std::move(headers_.transport);
    step->mark = headers_.mark;
    step->input_link = headers_.input_link;
  }
  headers_ = {};
  take(*std::move(step));
}

}  // namespace nomad_bridge::nft
