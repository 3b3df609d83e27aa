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
  std::vector<Seen> steps;    // of request and answer, in order
  std::vector<Seen> lookups;  // of neighbours
  // The link by which a datagram leaves the node for a sandbox or a virtual machine, and where it
  // is caught. Empty: the server's container handles its frames itself, or the probe is TCP.
  std::string reader_link;

  // Before all rules of a hook, or after them.
  struct Place {
    Side side = Side::kNode;
    probe::PacketKind packet = probe::PacketKind::kRequest;
    nft::TableFamily family = nft::TableFamily::kInet;
    nft::Hook::Point point = nft::Hook::Point::kPrerouting;
    bool is_end = false;
    std::string device = {};  // empty: any
  };
  // Returns nullptr if it was not seen there.
  [[nodiscard]] const Seen* Find(const Place& place) const;
  // Returns nullptr if no marker was seen.
  [[nodiscard]] const Seen* LastMarker() const;
  // Returns the rule or the policy that has dropped it.
  [[nodiscard]] const Seen* Drop() const;
  [[nodiscard]] const Seen* LookupDrop() const;
  // Returns whether we took the request or the answer off its way.
  [[nodiscard]] bool IsCaught(probe::PacketKind packet) const;
  // Returns whether a datagram was taken off its way to a sandbox or a virtual machine.
  [[nodiscard]] bool HasLeftForReader() const;
  [[nodiscard]] bool IsRefused() const;  // by a reset
};

}  // namespace nomad_bridge::causes
