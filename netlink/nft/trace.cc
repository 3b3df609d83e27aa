#include "netlink/nft/trace.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <arpa/inet.h>  // before the kernel's own in.h, which gives way to it
#include <libnftnl/trace.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/core/message.h"
#include "netlink/nft/batch.h"

namespace nomad_bridge::nft {
namespace {

using NftnlTrace = netlink::Handle<nftnl_trace, nftnl_trace_free>;

constexpr std::size_t kMaxMessage = 64 << 10;

TableId TraceTable() {
  return {.family = TableFamily::kInet, .name = "nomad-bridge-trace"};
}

constexpr std::string_view kEndPrefix = "last_";

Batch TableBatch(const std::vector<Rule>& choices, std::uint32_t flags) {
  constexpr std::int32_t kBeforeAll = -500;
  Batch batch;
  batch.AddTable(TraceTable(), flags);
  for (const auto& [name, point] :
       {std::pair{"in", Hook::Point::kPrerouting}, std::pair{"out", Hook::Point::kOutput}}) {
    batch.AddChain(
        TraceTable(),
        {.name = name, .hook = Hook{.type = "filter", .point = point, .priority = kBeforeAll}});
    for (Rule choice : choices) {
      batch.AppendRule(TraceTable(), name, choice.SetTrace());
    }
  }
  for (const auto& [name, point] :
       {std::pair{"in", Hook::Point::kInput}, std::pair{"out", Hook::Point::kPostrouting}}) {
    batch.AddChain(TraceTable(),
                   {.name = Cat(kEndPrefix, name),
                    .hook = Hook{.type = "filter",
                                 .point = point,
                                 .priority = std::numeric_limits<std::int32_t>::max()}});
  }
  return batch;
}

UniqueFd OpenEvents(const netlink::Netns& ns) {
  UniqueFd events;
  netlink::InNetns(ns, [&] {
    events = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  });
  const int group = NFNLGRP_NFTRACE;
  // Without a number of its own it would be taken for the kernel, which sends nothing to itself.
  const union {
    sockaddr any;
    sockaddr_nl netlink;
  } own = {.netlink = {.nl_family = AF_NETLINK}};
  if (events.get() < 0 || ::bind(events.get(), &own.any, sizeof own.netlink) != 0 ||
      ::setsockopt(events.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0) {
    throw ErrnoError(Code::kKernel, "cannot listen to the trace of nf_tables");
  }
  return events;
}

std::string TextOf(const nftnl_trace& trace, std::uint16_t attribute) {
  const char* const text =
      nftnl_trace_is_set(&trace, attribute) ? nftnl_trace_get_str(&trace, attribute) : nullptr;
  return text == nullptr ? "" : text;
}

using Ports = std::pair<std::uint16_t, std::uint16_t>;

// With the first message of a base chain alone, which may be no step; 0 else.
Ports PortsOf(const nftnl_trace& trace) {
  std::uint32_t size = 0;
  const void* const header = nftnl_trace_is_set(&trace, NFTNL_TRACE_TRANSPORT_HEADER)
                                 ? nftnl_trace_get_data(&trace, NFTNL_TRACE_TRANSPORT_HEADER, &size)
                                 : nullptr;
  std::array<std::uint16_t, 2> ports{};
  if (header != nullptr && size >= sizeof ports) {
    std::memcpy(ports.data(), header, sizeof ports);
  }
  return {ntohs(ports[0]), ntohs(ports[1])};
}

// Of a rule or policy of the table that chooses packets.
std::optional<TraceStep::At> MarkOf(const std::string& chain, bool is_policy) {
  if (chain.starts_with(kEndPrefix)) {
    return TraceStep::At::kEnd;
  }
  return is_policy ? std::nullopt : std::optional(TraceStep::At::kStart);
}

// nullptr for a message of another kind.
NftnlTrace ParseTrace(const nlmsghdr& message) {
  NftnlTrace trace(nftnl_trace_alloc());
  const bool is_trace = NFNL_MSG_TYPE(message.nlmsg_type) == NFT_MSG_TRACE &&
                        nftnl_trace_nlmsg_parse(&message, trace.get()) == 0;
  return is_trace ? std::move(trace) : nullptr;
}

// nullopt for what is no step: the end of a chain, and what starts a packet's trace.
std::optional<TraceStep> ReadStep(const nftnl_trace& trace, const Ports& ports) {
  const std::uint32_t type = nftnl_trace_get_u32(&trace, NFTNL_TRACE_TYPE);
  const bool is_policy = type == NFT_TRACETYPE_POLICY;
  const std::uint16_t attribute = is_policy ? NFTNL_TRACE_POLICY : NFTNL_TRACE_VERDICT;
  const bool is_rule =
      type == NFT_TRACETYPE_RULE && nftnl_trace_is_set(&trace, NFTNL_TRACE_RULE_HANDLE);
  if (!(is_policy || is_rule) || !nftnl_trace_is_set(&trace, attribute)) {
    return std::nullopt;
  }
  const auto code = static_cast<std::int32_t>(nftnl_trace_get_u32(&trace, attribute));
  const TableId table = {
      .family = static_cast<TableFamily>(nftnl_trace_get_u32(&trace, NFTNL_TRACE_FAMILY)),
      .name = TextOf(trace, NFTNL_TRACE_TABLE)};
  const std::string chain = TextOf(trace, NFTNL_TRACE_CHAIN);
  const std::optional<TraceStep::At> at =
      table == TraceTable() ? MarkOf(chain, is_policy) : TraceStep::At::kRule;
  if (!at) {
    return std::nullopt;
  }
  return TraceStep{.at = *at,
                   .packet = nftnl_trace_get_u32(&trace, NFTNL_TRACE_ID),
                   .source_port = ports.first,
                   .destination_port = ports.second,
                   .table = table,
                   .chain = chain,
                   .handle = is_policy ? 0 : nftnl_trace_get_u64(&trace, NFTNL_TRACE_RULE_HANDLE),
                   .verdict = {.code = static_cast<Verdict::Code>(code),
                               .chain = TextOf(trace, NFTNL_TRACE_JUMP_TARGET)}};
}

// False if none have come until then.
bool AwaitEvents(int events, Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  pollfd waiting{.fd = events, .events = POLLIN, .revents = 0};
  return left.count() > 0 && ::poll(&waiting, 1, static_cast<int>(left.count())) != 0;
}

// Returns how many bytes; fewer than 0 if there is nothing yet, or the kernel has lost some.
ssize_t ReadEvents(int events, std::vector<char>& buffer) {
  const ssize_t got = ::recv(events, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
    throw ErrnoError(Code::kKernel, "cannot read the trace of nf_tables");
  }
  return got;
}

}  // namespace

Trace Trace::Start(const netlink::Netns& ns, const std::vector<Rule>& choices) {
  UniqueFd events = OpenEvents(ns);
  Socket socket = Socket::In(ns);
  std::uint32_t flags = NFT_TABLE_F_OWNER;
  RetryOnGenerations(socket, "trace packets", std::nullopt, [&](std::uint32_t generation) {
    const Batch batch = TableBatch(choices, flags);
    const CommitReply reply = socket.Commit(batch, generation);
    if (!reply.refused.empty() && flags != 0) {
      flags = 0;  // a kernel without owners
      return false;
    }
    if (!reply.refused.empty()) {
      throw ErrorOf(batch, reply);
    }
    return reply.done();
  });
  return {std::move(socket), std::move(events)};
}

Trace::~Trace() {
  if (events_.get() < 0) {
    return;  // moved from
  }
  try {
    Batch batch;
    batch.DeleteTable(TraceTable());
    RetryOnGenerations(socket_, "end the trace", std::nullopt, [&](std::uint32_t generation) {
      return TryCommit(socket_, batch, generation);
    });
  } catch (const std::exception&) {
    // With its owner it goes all the same.
  }
}

void Trace::Read(Deadline deadline, const std::function<bool(const TraceStep&)>& is_last) {
  std::vector<char> buffer(kMaxMessage);
  std::map<std::uint32_t, Ports> ports;  // of each packet, as it came
  bool has_begun = false;
  bool is_over = false;
  while (!is_over && AwaitEvents(events_.get(), deadline)) {
    const ssize_t got = ReadEvents(events_.get(), buffer);
    netlink::ForEachIn(buffer.data(), got, [&](const nlmsghdr& message) {
      const NftnlTrace trace = ParseTrace(message);
      if (trace == nullptr) {
        return;
      }
      const std::uint32_t packet = nftnl_trace_get_u32(trace.get(), NFTNL_TRACE_ID);
      const Ports& came = ports.try_emplace(packet, PortsOf(*trace)).first->second;
      const std::optional<TraceStep> step = ReadStep(*trace, came);
      if (!step) {
        return;
      }
      deadline = has_begun ? deadline : std::min(deadline, FromNow(kMore));
      has_begun = true;
      is_over = is_over || is_last(*step);
    });
  }
}

}  // namespace nomad_bridge::nft
