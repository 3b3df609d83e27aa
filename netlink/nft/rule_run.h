// What one rule does with a packet of which only some is known. Private to netlink/.
//
// Source  linux/netfilter/nf_tables.h; nft --debug=netlink shows the expressions of a rule.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "netlink/nft/marks.h"
#include "netlink/nft/packet_path.h"
#include "netlink/nft/registers.h"

namespace nomad_bridge::nft {

struct RuleResult {
  Match match = Match::kYes;
  std::vector<Verdict> verdicts;  // one of them; none: it goes on to the next rule
  std::optional<Effect::Kind> effect;
  std::optional<std::uint16_t> port;  // see Effect
  std::optional<Ip> source;           // see Effect
  std::optional<std::uint16_t> zone;  // see Effect
  std::optional<std::uint8_t> hops;   // see Effect
  Marks marks;                        // that it sets
};

// The set of the rule's table that is called so; an empty one if there is none.
using FindSet = std::function<const KnownSet*(const std::string& name)>;

// In a table of `family`.
[[nodiscard]] RuleResult Apply(const KernelRule& rule,
                               const Packet& packet,
                               TableFamily family,
                               const FindSet& find_set);

}  // namespace nomad_bridge::nft
