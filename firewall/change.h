// Elements of our tables: finds them, and changes them for one attachment in one atomic batch.
//
// Shared  Elements without a comment have no owner: they belong to the node, not to an attachment.
// Errors  kKernel. An element of another owner is no error here, but a Conflict.
// Locks   None here. The caller holds the rules' lock while it plans and commits a change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/finding.h"
#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::firewall {

[[nodiscard]] inline bool IsShared(const nft::Element& element) {
  return element.comment.empty();
}

// Whether the kernel has an element, and with the wanted value.
enum class Presence { kSame, kMissing, kDifferent };
// `present`: the kernel's element with the key of `wanted`.
[[nodiscard]] Presence PresenceOf(const std::optional<nft::Element>& present,
                                  const nft::Element& wanted);
// Asks the kernel about all of them in one request.
[[nodiscard]] std::vector<Presence> FindPresences(nft::Socket& socket,
                                                  const std::vector<nft::Element>& elements);

// Returns "tcp . 8080 in port4 of veth3f2a91c04d7". `set`: the element's set; nullptr: not known.
[[nodiscard]] std::string Name(const nft::Set* set, const nft::Element& element);
// Returns the finding for an element that is missing or different.
[[nodiscard]] Finding FindingOf(const nft::Set* set,
                                const nft::Element& element,
                                Presence presence);

// An element in the kernel whose owner is not among Change::stale_owners.
struct Conflict {
  nft::Element wanted;
  nft::Element present;  // present.owner() is the other owner
};

struct Change {
  // Sets, counters and chains that elements of `add` need. Missing ones are created. A chain that
  // exists has its rules already.
  std::vector<nft::Table> make = {};
  // Elements to add. An element of the same owner with other data or another comment is replaced.
  std::vector<nft::Element> add = {};
  // Elements to remove: shared ones, and those that still belong to the owner in the comment.
  std::vector<nft::Element> remove = {};
  // Owners whose elements may be replaced by elements of `add`.
  std::vector<std::string> stale_owners = {};
};

// If either is set, nothing was changed.
struct ChangeOutcome {
  std::optional<Conflict> conflict = {};
  // Our tables are not as the change needs them, or somebody has changed an element meanwhile.
  std::optional<Error> refusal = {};
};

// Commits `change` as one batch; nothing if there is nothing to change.
[[nodiscard]] ChangeOutcome ChangeElements(nft::Socket& socket, const Change& change);

// Removes shared `elements`, and those that still belong to the owner in the comment. It is no
// error if an element or its table is missing.
void EnsureElementsGone(nft::Socket& socket, const std::vector<nft::Element>& elements);

// Returns every element of attachments and policies in our tables: no description of the tables
// (about.h), and none that rules have added. One dump per set.
[[nodiscard]] std::vector<nft::Element> AllElements(nft::Socket& socket);

}  // namespace nomad_bridge::firewall
