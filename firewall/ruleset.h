// Compares and repairs our rules in the kernel, and changes them for one attachment.
//
// Atomic      Every function commits at most one batch, tied to the ruleset generation that it was
//             planned on. If others change any rule in between, the kernel refuses the batch, and
//             nothing has changed.
// Generation  The kernel counts every change of a namespace's ruleset. While the count has not
//             changed since our own last change, nobody has changed a rule, and nothing needs to be
//             compared.
// Shared      The table, its chains, sets and rules, the static rules in the iptables tables and
//             the operator's chain are created if absent, and never removed. Once the operator's
//             chain exists, we never change it.
// Errors      kKernel, with the label of the message that was refused; kTryAgain. An element of
//             another owner is no error here, but a Conflict.
// Locks       None here. The caller holds the rules' lock while it uses and changes a generation.
// Source      linux/netfilter/nf_tables.h, NFNL_BATCH_GENID (kernel 4.12).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mismatch.h"
#include "firewall/contributor.h"
#include "firewall/forward_hook.h"
#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

// The tables and static rules that the kernel should have.
struct Goal {
  Tables tables;
  std::vector<ForwardHook> forward_hooks;  // all with the same mark bit
};

// "tcp . 8080 in port4 of veth3f2a91c04d7"
[[nodiscard]] std::string Name(const Tables& tables, const nft::Element& element);

// The elements of live attachments, and which others may stay.
struct DesiredElements {
  // Several elements may have one key and different owners. The kernel then gets the element of the
  // owner that has the key in the kernel already, or else the first of them.
  std::vector<nft::Element> elements;
  // The values for elements that may stay: if the kernel holds an element of the same key and
  // owner, it gets this value. Otherwise it could name a chain that is removed.
  std::vector<nft::Element> instead_if_kept;
  // Returns whether any other element in the kernel may stay.
  std::function<bool(const nft::Element&)> may_stay;
};

struct Compared {
  std::uint32_t generation = 0;  // after the repair, if there was one
  std::vector<Mismatch> mismatches;
};

// Returns the kernel's handles of `tables`; 0 for a table that is missing or dormant. Another table
// of the same name has another handle.
[[nodiscard]] std::vector<std::uint64_t> HandlesOf(nft::Socket& socket,
                                                   const std::vector<nft::TableId>& tables);

// Compares the ruleset with `goal`, and in mode kRepair makes it equal. With `desired`, also
// compares elements and removes what is left over: elements, chains and sets. Without `desired`,
// the cost does not depend on the number of elements. Then, if a table or a set is missing, its
// elements are missing, too: changes nothing, and returns nullopt.
[[nodiscard]] std::optional<Compared> Compare(nft::Socket& socket,
                                              const Goal& goal,
                                              const DesiredElements* desired,
                                              Mode mode);

// Whether the kernel has an element, and with the wanted value.
enum class Presence { kSame, kMissing, kDifferent };
[[nodiscard]] std::vector<Presence> FindPresences(nft::Socket& socket,
                                                  const std::vector<nft::Element>& elements);

[[nodiscard]] Mismatch MismatchOf(const Tables& tables,
                                  const nft::Element& element,
                                  Presence presence);

// An element in the kernel whose owner is not among Change::stale_owners.
struct Conflict {
  nft::Element wanted;
  nft::Element present;  // present.owner() is the other owner
};

struct Change {
  // Sets, counters and chains that elements of `add` need. Missing objects are created. A chain
  // that exists has its rules already.
  nft::Table make = {.id = {}};
  // Elements to add. An element of the same owner with other data or another comment is replaced.
  std::vector<nft::Element> add;
  // Elements to remove, unless they now belong to another owner than the comment says.
  std::vector<nft::Element> remove_owned;
  // Shared elements to remove, which no network needs any more.
  std::vector<nft::Element> remove_shared;
  // Owners whose elements may be replaced by elements of `add`.
  std::vector<std::string> stale_owners;
};

struct CommitResult {
  // The generation after the change. nullopt: the ruleset was not at `generation`, and nothing was
  // changed.
  std::optional<std::uint32_t> generation;
  std::optional<Conflict> conflict;  // if set, nothing was changed
  // If set, nothing was changed: our tables are not as the caller knows them.
  std::optional<Error> refusal;
};

// Plans `change` of our tables as they are at `generation`, and commits it as one batch.
[[nodiscard]] CommitResult Commit(nft::Socket& socket,
                                  const Change& change,
                                  std::uint32_t generation);

// Removes the `elements` that have an owner and still belong to that owner, and all of `shared`. It
// is no error if there is no table or no such element. Returns the next generation; nullopt if the
// ruleset was not at `generation`.
std::optional<std::uint32_t> RemoveElements(nft::Socket& socket,
                                            const std::vector<nft::Element>& elements,
                                            std::optional<std::uint32_t> generation,
                                            const std::vector<nft::Element>& shared = {});

// AllElements() returns every element in our tables except those that rules add; OwnedElements()
// only those with an owner. For a DEL without a record. One dump per set.
[[nodiscard]] std::vector<nft::Element> AllElements(nft::Socket& socket);
[[nodiscard]] std::vector<nft::Element> OwnedElements(nft::Socket& socket);

}  // namespace nomad_bridge::firewall
