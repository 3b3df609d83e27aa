// nf_tables' own trace of packets in one network namespace: which rules they meet, and what each
// decides. Rules with SetTrace() choose the packets.
//
// Shapes  A step is one rule that applied, or a chain's policy, in the order in which the packet
//         came by. Steps of one packet have the same number as long as the kernel has no reason to
//         give it another one: it may, when it is routed.
// Errors  kKernel.
// Source  nft(8), monitor trace; linux/netfilter/nf_tables.h: NFT_MSG_TRACE, NFTA_TRACE_*.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "netlink/nft/socket.h"

struct nlmsghdr;

namespace nomad_bridge::nft {

struct TraceStep {
  std::uint32_t packet = 0;
  TableId table;
  std::string chain;
  std::uint64_t handle = 0;  // of the rule; 0: the chain's policy
  Verdict verdict;
  // With the first step of a base chain: its headers as they were there, and its mark. Else empty.
  Bytes network;    // IPv4's, IPv6's, or what ARP says
  Bytes transport;  // 20 bytes at most
  std::uint32_t mark = 0;
};

// Receives the traces of one namespace, whichever rule has started them.
class TraceEvents {
 public:
  [[nodiscard]] static TraceEvents In(const netlink::Netns& ns);

  // Becomes readable when there are traces.
  [[nodiscard]] int fd() const { return socket_.get(); }
  // Passes the traces that have come to `take`. Returns false if the kernel has lost some.
  bool Take(const std::function<void(TraceStep)>& take);

 private:
  explicit TraceEvents(UniqueFd socket) : socket_(std::move(socket)) {}
  void TakeOne(const nlmsghdr& message, const std::function<void(TraceStep)>& take);

  UniqueFd socket_;
  // The headers from a message that is no step, for the step that follows.
  TraceStep headers_;
};

}  // namespace nomad_bridge::nft
