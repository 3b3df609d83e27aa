// What a rule of others does to a connection, in words, and the command that has it pass.
#pragma once

#include <string>
#include <string_view>

#include "netlink/nft/packet_path.h"
#include "plugin/causes/journey.h"
#include "plugin/causes/stations.h"

namespace nomad_bridge::causes {

// `effect` is on the packet of `station`, `place` "on the node" or "in the container".
[[nodiscard]] Cause Describe(const nft::Effect& effect,
                             std::string_view place,
                             const Station& station,
                             const Journey& journey);

// ---- its parts

// Whether the rule is in a chain that is for the operator's own.
[[nodiscard]] bool IsOperators(const nft::Effect& effect, const state::Record& record);
// "on the node, chain forward of table inet mine (policy drop)"
[[nodiscard]] std::string RuleText(const nft::Effect& effect, std::string_view place);
// "drops what comes for the port"
[[nodiscard]] std::string DoesText(const nft::Effect& effect,
                                   const Station& station,
                                   const Journey& journey);
[[nodiscard]] std::string FixOf(const nft::Effect& effect,
                                const Station& station,
                                const Journey& journey);

}  // namespace nomad_bridge::causes
