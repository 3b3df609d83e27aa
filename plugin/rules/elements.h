// What an attachment has in our nf_tables table, derived from its record. Pure.
//
// Shapes  Elements with a comment are the attachment's own; those without one are shared by all
//         attachments behind the same interface.
#pragma once

#include <optional>
#include <vector>

#include "netlink/nft/element.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// All elements of the parts of `record`; none if no part of it has rules.
[[nodiscard]] std::vector<nft::Element> ElementsOf(const state::Record& record);

// The part that an element in our table belongs to; nullopt for what all parts share.
[[nodiscard]] std::optional<cni::Part> PartOf(const nft::Element& element);

}  // namespace nomad_bridge::rules
