// What our rules drop because a network's config says so: by the keys sourceCheck, inbound and
// ingressPolicy. Each drop is counted by its key, and noted by allocation. What policies refuse is
// in their flows (plugin/rules/policy_admission.h).
//
// Cost    Only packets that are dropped pass these rules.
// Probes  of ours are neither counted nor noted: they have kProbePriority.
// Limits  A full set takes no new element until others expire: what an allocation with invented
//         sources sends is then noted by its MAC alone. The counters go on.
// Errors  kKernel from the functions with a socket; the others are pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.h"
#include "firewall/contributor.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

// The keys, which also name the counters.
constexpr const char* kSourceCheck = "sourceCheck";
constexpr const char* kInboundKey = "inbound";
constexpr const char* kIngressPolicy = "ingressPolicy";

// Sets of dropped packets. Those of sourceCheck have port . MAC, with the source address if there
// is one; those of ingressPolicy port . port between two ports of a bridge; all others source .
// destination.
constexpr const char* kSourceDrops = "source_drops";
constexpr std::string_view kSourceDropsFrom = "source_drops_from";
constexpr const char* kIsolatedDrops = "isolated_drops";
constexpr std::string_view kIngressDrops = "ingress_drops";
constexpr std::string_view kInboundDrops = "inbound_drops";

constexpr std::uint64_t kDropTimeoutMs = 3'600'000;  // after the last packet

// The priority (meta priority) by which rules know a probe of ours (netlink/probe). They judge it
// like other packets, but neither count nor note it.
constexpr std::uint32_t kProbePriority = 0x6e627072;

// Returns the rows of those sets that are in our table of `family`.
[[nodiscard]] std::vector<SetRow> DropSets(nft::TableFamily family);

// Returns a chain that drops all packets, and counts those that are no probe. Each rule of `notes`
// notes some of them in a set.
[[nodiscard]] nft::Chain DropChain(const DroppingChain& chain, std::vector<nft::Rule> notes);

// What was dropped, with what the packets have in common.
struct Drop {
  std::string_view key;
  std::string from_port = {};  // name of a host veth
  std::optional<Mac> from_mac = {};
  std::optional<Ip> from = {};
  std::string to_port = {};
  std::optional<Ip> to = {};
  std::uint64_t packets = 0;
  std::uint64_t seconds_ago = 0;  // since the last packet
};
// Returns what was dropped within the last hour, the latest first.
[[nodiscard]] std::vector<Drop> ReadDrops(nft::Socket& socket);

// Returns the number of dropped packets by key, since the tables were made. Empty without tables.
[[nodiscard]] std::map<std::string, std::uint64_t> CountDrops(nft::Socket& socket);

}  // namespace nomad_bridge::firewall
