// Finds out what one rule does with a packet that is only partly known. Private to netlink/.
//
// Source  linux/netfilter/nf_tables.h; nft --debug=netlink shows the expressions of a rule.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "netlink/nft/packet_path.h"

namespace nomad_bridge::nft {

enum class Match : std::uint8_t { kNo, kMaybe, kYes };

struct RuleResult {
  Match match = Match::kYes;
  // One of these applies. If there is none, the packet goes on to the next rule.
  std::vector<Verdict> verdicts = {};
};

// Returns the set of the rule's table with this name, or an empty one if there is none.
using FindSet = std::function<const KnownSet*(const std::string& name)>;

// Applies `rule` to `packet`, and sets the mark of `packet` as the rule does. `is_reached` is true
// if every packet of this description reaches the rule; otherwise bits in which the old and the new
// mark differ become unknown.
[[nodiscard]] RuleResult Apply(const KernelRule& rule,
                               Packet& packet,
                               bool is_reached,
                               const FindSet& find_set);

}  // namespace nomad_bridge::nft
