// What an attachment has in our nf_tables table, derived from its record.
//
// Shapes  Elements with a comment are the attachment's own; those without one are shared by all
//         attachments behind the same interface.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Whether it has elements in table bridge nomad-bridge.
[[nodiscard]] bool NeedsPortFilter(const state::Record& record);

// All elements of the parts of `record`; none if no part of it has rules.
[[nodiscard]] std::vector<nft::Element> ElementsOf(const state::Record& record);

// All in the kernel whose owner's key is `owner`, by a dump.
[[nodiscard]] std::vector<nft::Element> FindElementsOf(nft::Socket& socket, std::string_view owner);

// The parts that an element is there for: one, or all that have rules. None if its set is not ours:
// another release's.
[[nodiscard]] cni::Parts PartsOf(const nft::Element& element);

// The container's address that an element is about: its key, or what a port leads to. nullopt if it
// is about none.
[[nodiscard]] std::optional<Ip> AddressOf(const nft::Element& element);

// The interface, or the first of two, that an element is about; nullopt if it is about none.
[[nodiscard]] std::optional<std::string> FindIfname(const nft::Element& element);

}  // namespace nomad_bridge::rules
