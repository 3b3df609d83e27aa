// The conntrack zone that a rule puts a packet into. Private to netlink/.
//
// Source  linux/netfilter/xt_CT.h, nft_ct.c
#pragma once

#include <cstdint>
#include <optional>

#include "netlink/nft/registers.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::nft {

// What is answered is looked for in this zone; nullopt: not known. `set`: an expression that sets
// the zone, `value` what it sets.
[[nodiscard]] std::optional<std::uint16_t> AnswersZone(const Expression& set,
                                                       std::span<const PartialByte> value);
// REQUIRES: `target` is xt's CT, which does not say notrack
[[nodiscard]] std::optional<std::uint16_t> AnswersZoneOfTarget(const Expression& target);

// xt's CT or NOTRACK
[[nodiscard]] bool IsNotrack(const Expression& target);

}  // namespace nomad_bridge::nft
