// The hooks that a connection's packets pass, in their order, each with the packet as it is there.
//
// Shapes  A packet is described as far as it is known before there is one
//         (netlink/nft/packet_path.h).
// Errors  kKernel
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "netlink/nft/packet_path.h"
#include "plugin/causes/journey.h"

namespace nomad_bridge::causes {

enum class Direction : std::uint8_t {
  kRequest,
  kAnswer,
  kFromLan,   // to the container's own address, by its bridge alone
  kFromNode,  // a request of the node itself
  kLookup,    // who has an address on a link's network, or the answer
  kBeside,    // no part of a connection to a published port
};

// One packet at one hook.
struct Station {
  nft::TableFamily family = nft::TableFamily::kAny;  // kAny: ip or ip6, and inet
  nft::Hook::Point point = nft::Hook::Point::kPrerouting;
  Direction direction = Direction::kRequest;
  nft::Packet packet;
  std::string device = {};  // of an ingress or egress hook
  // kLookup and kBeside: "ARP requests that come by 'eth0'"
  std::string about = {};
  std::optional<int> accept_mark_bit = std::nullopt;  // behind our chain, which has set it
  // The priorities of chains that see it so. `ours`: that of our chain between it and what comes
  // before or behind; of others' chains of this priority those that the kernel asks there.
  std::int32_t first = std::numeric_limits<std::int32_t>::min();
  std::int32_t last = std::numeric_limits<std::int32_t>::max();
  std::optional<std::int32_t> ours = std::nullopt;

  [[nodiscard]] bool IsBeforeOurs() const { return ours && last <= *ours; }
};

// Of a bridge that somebody has renamed: the name that it is to have, or the one that it has.
enum class BridgeName : std::uint8_t { kRecorded, kPresent };

[[nodiscard]] std::vector<Station> StationsOnNode(NodeFacts& facts,
                                                  const Journey& journey,
                                                  BridgeName name = BridgeName::kRecorded);

// Of what the container itself sends out, up to our own chain; and of what passes between it and
// its neighbours on the bridge. Nothing where a client is named: then StationsOnNode() has it.
[[nodiscard]] std::vector<Station> StationsBeside(NodeFacts& facts, const Journey& journey);

// What rules of others do there. They may set marks of its packet.
[[nodiscard]] std::vector<nft::Effect> EffectsAt(nft::Ruleset& rules, Station& station);

// Of what the node itself asks, as far as nothing else passes there, up to where conntrack looks
// for what its answer belongs to.
[[nodiscard]] std::vector<Station> StationsOfOwn(NodeFacts& facts, const Journey& journey);

// Parts of the way of a packet: at the hooks of a link, or between a bridge and its ports.
[[nodiscard]] std::vector<Station> AtIngress(const nft::Packet& packet,
                                             Direction direction,
                                             const std::string& device);
[[nodiscard]] Station AtEgress(const nft::Packet& packet,
                               Direction direction,
                               const std::string& device);
[[nodiscard]] std::vector<Station> OnBridge(const nft::Packet& packet,
                                            std::initializer_list<nft::Hook::Point> points,
                                            Direction direction);

constexpr std::int32_t kConntrackPriority = -200;
constexpr std::uint32_t kAllStates = 0x7f;  // of conntrack

}  // namespace nomad_bridge::causes
