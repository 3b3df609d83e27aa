// nf_tables' own trace of packets in one network namespace: which rules they meet, and what each
// decides.
//
// Shapes  A step is one rule that applied, or a chain's policy, in the order in which the packet
//         came by. Steps of one packet have the same number as long as the kernel has no reason to
//         give it another one: it may, when it is routed.
// Owner   The table with the rules that choose packets belongs to this process (NFT_TABLE_F_OWNER):
//         it goes with it, however that ends. Before Linux 5.12 it goes with the object alone.
// Errors  kKernel.
// Source  nft(8), monitor trace; linux/netfilter/nf_tables.h: NFT_MSG_TRACE, NFTA_TRACE_*.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/file_lock.h"
#include "netlink/nft/socket.h"

struct nlmsghdr;

namespace nomad_bridge::nft {

struct TraceStep {
  enum class At : std::uint8_t {
    kRule,
    kStart,  // where packets are chosen: no rule of others has seen it
    kEnd,    // behind all rules at input or postrouting: they have let it through
  };

  At at = At::kRule;
  std::uint32_t packet = 0;
  std::uint16_t source_port = 0;  // both as the packet came; 0: not known
  std::uint16_t destination_port = 0;
  TableId table;
  std::string chain;
  std::uint64_t handle = 0;  // of the rule; 0: the chain's policy
  Verdict verdict;
  // With the first step of a base chain: its headers as they were there, and its mark. Else empty.
  Bytes network;    // IPv4's, IPv6's, or what ARP says
  Bytes transport;  // 20 bytes at most
  std::uint32_t mark = 0;
};

// The traces of one namespace, by whatever rule they were asked for.
class TraceEvents {
 public:
  [[nodiscard]] static TraceEvents In(const netlink::Netns& ns);

  // Readable when there are some.
  [[nodiscard]] int fd() const { return socket_.get(); }
  // Those that have come go to `take`. False if the kernel has lost some.
  bool Take(const std::function<void(TraceStep)>& take);

 private:
  explicit TraceEvents(UniqueFd socket) : socket_(std::move(socket)) {}
  void TakeOne(const nlmsghdr& message, const std::function<void(TraceStep)>& take);

  UniqueFd socket_;
  // What a message that is no step has brought for the step that follows it.
  TraceStep headers_;
};

class Trace {
 public:
  // From now on packets that one of `choices` matches are traced: each is a rule without a verdict,
  // tried before all other rules at the prerouting and output hooks.
  [[nodiscard]] static Trace Start(const netlink::Netns& ns, const std::vector<Rule>& choices);
  Trace(Trace&&) = default;
  Trace& operator=(Trace&&) = delete;
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();

  static constexpr std::chrono::seconds kMore{1};
  // Each step that comes goes to `is_last`, until that says so, or until the deadline; once a
  // packet has come, for kMore at most.
  void Read(Deadline deadline, const std::function<bool(const TraceStep&)>& is_last);

 private:
  Trace(Socket socket, TraceEvents events)
      : socket_(std::move(socket)), events_(std::move(events)) {}

  Socket socket_;
  TraceEvents events_;
};

}  // namespace nomad_bridge::nft
