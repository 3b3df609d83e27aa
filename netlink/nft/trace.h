// Reads nf_tables' own trace of packets in one network namespace: which rules a packet matches, and
// what each rule decides. Rules with SetTrace() choose the packets.
//
// Shapes  A step is one rule that matched, or a chain's policy, in the packet's order. All steps of
//         a packet have the same number, unless the kernel gives the packet a new number, for
//         example when it routes the packet.
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
  std::uint64_t handle = 0;  // the rule's handle; 0: the step is the chain's policy
  Verdict verdict;
  // Only in the first step of a base chain: the packet's headers as they were there, its mark, and
  // the link that has received it.
  Bytes network;    // the header of IPv4 or IPv6, or the ARP packet
  Bytes transport;  // 20 bytes at most
  std::uint32_t mark = 0;
  int input_link = 0;  // 0: this machine sends it
};

// Receives all traces of one namespace, no matter which rule started them.
class TraceEvents {
 public:
  [[nodiscard]] static TraceEvents In(const netlink::Netns& ns);

  // Becomes readable when there are traces.
  [[nodiscard]] int fd() const { return socket_.get(); }
  // Passes the steps that have arrived to `take`. Returns false if the kernel has lost messages.
  bool Take(const std::function<void(TraceStep)>& take);

 private:
  explicit TraceEvents(UniqueFd socket) : socket_(std::move(socket)) {}
  void TakeOne(const nlmsghdr& message, const std::function<void(TraceStep)>& take);

  UniqueFd socket_;
  // The headers from a message that is no step, for the next step.
  TraceStep headers_;
};

}  // namespace nomad_bridge::nft
