// Where the packets of a probe were seen, in their order.
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
  bool was_sent = true;       // false: the link, or the namespace, does not take it
  bool is_complete = true;    // false: the kernel has lost some of the trace
  std::vector<Seen> steps;    // of request and answer, in their order
  std::vector<Seen> lookups;  // of neighbours
  // By which a datagram leaves the node for a sandbox or a virtual machine, and where it is caught.
  // Empty: the server's container has its frames itself, or the probe is TCP.
  std::string reader_link;

  // In front of all rules of a hook, or behind them.
  struct Place {
    Side side = Side::kNode;
    probe::PacketKind packet = probe::PacketKind::kRequest;
    nft::TableFamily family = nft::TableFamily::kInet;
    nft::Hook::Point point = nft::Hook::Point::kPrerouting;
    bool is_end = false;
    std::string device = {};  // empty: any
  };
  // nullptr: it was not seen there
  [[nodiscard]] const Seen* Find(const Place& place) const;
  // nullptr: none was seen
  [[nodiscard]] const Seen* LastMarker() const;
  // The rule, or policy, that has dropped it.
  [[nodiscard]] const Seen* Drop() const;
  [[nodiscard]] const Seen* LookupDrop() const;
  // The request or the answer was taken off its way by us.
  [[nodiscard]] bool IsCaught(probe::PacketKind packet) const;
  // A datagram was taken off its way to a sandbox or a virtual machine.
  [[nodiscard]] bool HasLeftForReader() const;
  [[nodiscard]] bool IsRefused() const;  // by a reset
};

}  // namespace nomad_bridge::causes
