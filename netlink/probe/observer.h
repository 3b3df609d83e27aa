// Observes what the kernel does with the packets of a probe or of a client in one network
// namespace. Uses nf_tables' trace, and a marker at both ends of each hook.
//
// Marker   A base chain with the lowest or the highest priority of a hook, which sees a packet
//          before or after all other rules. Between the markers of two hooks are routes,
//          neighbours, bridges and queues, which rules cannot see. The last marker that a packet
//          reached shows where the packet stopped.
// Lookups  The observer also watches the ARP and ICMPv6 requests for neighbours that a packet
//          needs, and their answers.
// Owner    The markers' tables belong to this process (NFT_TABLE_F_OWNER) and are deleted with it,
//          however it ends. Before Linux 5.12 only this object's destructor deletes them.
// Kernel   Before Linux 5.16 there are no egress hooks: packets are caught at the end of the
//          postrouting hook instead.
// Changes  nothing for other packets, except the time that the markers take.
// Errors   kKernel
// Source   nft(8), monitor trace; netlink/nft/trace.h
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "netlink/nft/trace.h"
#include "netlink/probe/frame.h"

namespace nomad_bridge::probe {

enum class PacketKind : std::uint8_t {
  kRequest,
  kAnswer,
  kAsk,   // a neighbour lookup (ARP, ICMPv6) for a request or an answer
  kTold,  // the answer to a neighbour lookup
};

struct Marker {
  nft::TableFamily family = nft::TableFamily::kInet;
  nft::Hook::Point point = nft::Hook::Point::kPrerouting;
  std::string device;  // of an ingress or egress hook
  bool is_end = false;
  bool is_elsewhere = false;  // an end of its own, for packets that were caught by Elsewhere

  bool operator==(const Marker&) const = default;
};

// One step of one packet.
struct Sighting {
  PacketKind packet = PacketKind::kRequest;
  std::optional<Marker> marker;   // nullopt: `step` is a rule, or a policy, of some table
  nft::TraceStep step;            // with the headers as its base chain saw them
  std::vector<std::string> path;  // the chains from the base chain to the rule's chain

  [[nodiscard]] bool IsDrop() const {
    return !marker && step.verdict.code == nft::Verdict::Code::kDrop;
  }
  // Returns whether this is an answer that resets the TCP connection.
  [[nodiscard]] bool IsReset() const;
  [[nodiscard]] std::uint8_t TcpFlags() const;  // 0: not known
  [[nodiscard]] std::optional<Ip> Source() const;
  [[nodiscard]] std::optional<Ip> Destination() const;
  [[nodiscard]] std::uint16_t SourcePort() const;  // 0: not known
  [[nodiscard]] std::uint16_t DestinationPort() const;
};

// Where a packet is caught (dropped), so that it does not leave the node or reach a service: at the
// end of this hook. If the packet is a TCP request, its reset is caught, too.
struct Catch {
  PacketKind packet = PacketKind::kAnswer;
  nft::TableFamily family = nft::TableFamily::kNetdev;
  nft::Hook::Point point = nft::Hook::Point::kEgress;
  std::string device;
};

// Catches a packet that leaves by any other link than these: at the end of the postrouting hooks.
struct Elsewhere {
  PacketKind packet = PacketKind::kAnswer;
  std::set<std::string> links;
};

class Observer {
 public:
  struct What {
    Flow flow;
    // Watches packets that match one of these rules, which have no verdict, instead of the probe's
    // packets. All count as requests then, and `flow` only names the tables.
    std::vector<nft::Rule> others = {};
    // Addresses whose neighbour entries packets may need.
    std::set<Ip> asked = {};
    // Links whose ingress and egress hooks are watched.
    std::set<std::string> devices = {};
    std::vector<Catch> catches = {};
    std::vector<Elsewhere> elsewhere = {};
    // The probe's packets and lookups of neighbours get this `meta priority` just before the base
    // chains of these priorities. Rules there know the probe by it.
    std::uint32_t sign = 0;
    struct SignedAt {
      nft::TableFamily family = nft::TableFamily::kInet;
      nft::Hook::Point point = nft::Hook::Point::kForward;
      std::int32_t priority = 0;
    };
    std::vector<SignedAt> signed_at = {};
  };

  [[nodiscard]] static Observer Start(const netlink::Netns& ns, const What& what);
  Observer(Observer&&) = default;
  Observer& operator=(Observer&&) = delete;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  ~Observer();

  [[nodiscard]] int fd() const { return events_.fd(); }
  // Appends the steps that have arrived since the last call.
  void Take(std::vector<Sighting>& sightings);
  [[nodiscard]] bool HasLostEvents() const { return has_lost_events_; }

 private:
  Observer(nft::Socket socket, nft::TraceEvents events, const What& what)
      : socket_(std::move(socket)),
        events_(std::move(events)),
        token_(what.flow.token),
        asked_(what.asked),
        is_probe_(what.others.empty()) {}

  // A packet on its way through its latest base chain: the first step, which has the headers, and
  // the chains since then.
  struct Run {
    PacketKind packet = PacketKind::kRequest;
    nft::TraceStep first;
    std::vector<std::string> path;
  };
  void Note(nft::TraceStep step, std::vector<Sighting>& sightings);

  nft::Socket socket_;
  nft::TraceEvents events_;
  std::uint32_t token_;
  std::set<Ip> asked_;
  bool is_probe_;
  std::string table_;  // its name, in each family
  std::map<std::uint32_t, Run> runs_;
  bool has_egress_ = true;
  bool has_lost_events_ = false;
};

}  // namespace nomad_bridge::probe
