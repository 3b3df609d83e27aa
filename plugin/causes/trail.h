// Where the packets of a probe were seen, in order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netlink/probe/observer.h"

namespace nomad_bridge::causes {

// Where a packet was seen.
enum class Side : std::uint8_t { kClient, kNode, kServer };

struct Seen : probe::Sighting {
  Side side = Side::kNode;
};

class Trail {
 public:
  bool was_sent = true;       // false: the link or the namespace did not take it
  bool is_complete = true;    // false: the kernel has lost some of the trace
  std::vector<Seen> steps;    // steps of the request and the answer, in order
  std::vector<Seen> lookups;  // lookups of neighbours
  // The link by which a datagram leaves the node for a sandbox or a virtual machine, and where it
  // is caught. Empty: the server's container handles its frames itself, or the probe is TCP.
  std::string reader_link;
  bool is_heard = false;  // a datagram was caught in front of a socket that would have taken it

  // A place where packets are watched: before all rules of a hook, or after them (`is_end`).
  struct Place {
    Side side = Side::kNode;
    probe::PacketKind packet = probe::PacketKind::kRequest;
    nft::TableFamily family = nft::TableFamily::kInet;
    nft::Hook::Point point = nft::Hook::Point::kPrerouting;
    bool is_end = false;
    std::string device = {};  // empty: any
  };
  // Returns the packet as it was seen there; nullptr if it was not.
  [[nodiscard]] const Seen* Find(const Place& place) const;
  // Returns the last step with a marker; nullptr if there is none.
  [[nodiscard]] const Seen* LastMarker() const;
  // Returns the step with the rule or the policy that has dropped the packet; nullptr if there is
  // none.
  [[nodiscard]] const Seen* Drop() const;
  [[nodiscard]] const Seen* LookupDrop() const;
  // Returns the step at which we have caught the request or the answer on the way that it
  // was meant to take; nullptr if we have not.
  [[nodiscard]] const Seen* FindCaught(probe::PacketKind packet) const;
  [[nodiscard]] bool IsCaught(probe::PacketKind packet) const {
    return FindCaught(packet) != nullptr;
  }
  // Returns whether a packet was about to leave the node by a link that nobody expected.
  [[nodiscard]] bool HasGoneElsewhere() const;
  // Returns whether we have caught a datagram for a sandbox or a virtual machine.
  [[nodiscard]] bool HasLeftForReader() const;
  [[nodiscard]] bool IsRefused() const;  // by a reset
};

}  // namespace nomad_bridge::causes
