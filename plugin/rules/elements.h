// The elements that an attachment has in our nf_tables tables, derived from its record.
//
// Shapes  Elements with a comment belong to one attachment. Elements without a comment are shared
//         by all attachments behind the same interface.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Returns whether `record` has elements in table bridge nomad-bridge.
[[nodiscard]] bool NeedsPortFilter(const state::Record& record);

// Returns all elements of the parts of `record`; none if no part of it has rules.
[[nodiscard]] std::vector<nft::Element> ElementsOf(const state::Record& record);

// Finds all elements in the kernel whose owner is `owner`, by a dump of all sets.
[[nodiscard]] std::vector<nft::Element> FindElementsOf(nft::Socket& socket, std::string_view owner);

// Returns the parts that need `element`: one part, or all parts that have rules. Empty if its set
// belongs to another release.
[[nodiscard]] cni::Parts PartsOf(const nft::Element& element);

// Returns the container's address that `element` names, as its key or as the target of a port;
// nullopt if it names none.
[[nodiscard]] std::optional<Ip> AddressOf(const nft::Element& element);

// Returns the interface that `element` names, the first of two; nullopt if it names none.
[[nodiscard]] std::optional<std::string> FindIfname(const nft::Element& element);

}  // namespace nomad_bridge::rules
