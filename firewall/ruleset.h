// Our rules in the kernel: brought to what they should be, and changed for one attachment.
//
// Atomic      Every function commits at most one batch, tied to the ruleset generation it was
//             planned on. If others change any rule in between, the kernel refuses it, and nothing
//             has changed.
// Generation  The kernel counts every change of a namespace's ruleset. While it is the one after
//             our own last change, nothing has been changed since and nothing needs to be compared.
// Shared      The table, its chains, sets and rules, the static rules in the iptables tables, the
//             operator's chain: created if absent, never removed. The operator's chain is never
//             touched once it is there.
// Errors      kKernel, with the label of the message that was refused; kTryAgain. An element of
//             another owner is no error here, but a Conflict.
// Locks       None here. The caller holds the rules' lock while it uses and moves a generation.
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

// What should be there.
struct Goal {
  Tables tables;
  std::vector<ForwardHook> forward_hooks;  // all agree on the mark's bit
};

// "tcp . 8080 in port4 of veth3f2a91c04d7e"
[[nodiscard]] std::string Name(const Tables& tables, const nft::Element& element);

// The elements of live attachments.
struct DesiredElements {
  // Several may have one key and different owners. The kernel then gets the element of the owner
  // that has the key in the kernel already, or else the first of them.
  std::vector<nft::Element> elements;
  // What those that may stay have to be instead, where the kernel holds an element of their key and
  // owner: a chain that they name may go.
  std::vector<nft::Element> instead;
  // Whether another element that the kernel holds may stay.
  std::function<bool(const nft::Element&)> may_stay;
};

struct Compared {
  std::uint32_t generation = 0;  // the one after, if something was repaired
  std::vector<Mismatch> mismatches;
};

// The kernel's handles of `tables`, which tell a table from another of the same name; 0 if it is
// missing or dormant.
[[nodiscard]] std::vector<std::uint64_t> HandlesOf(nft::Socket& socket,
                                                   const std::vector<nft::TableId>& tables);

// Compares the ruleset with `goal`, and in mode kRepair makes it alike. With `desired` also the
// elements, and what is left over: elements, chains and sets. Without, at a cost that does not
// depend on the number of elements; nullopt then, and nothing has changed: elements are missing,
// too, as a table or a set of one was.
[[nodiscard]] std::optional<Compared> Compare(nft::Socket& socket,
                                              const Goal& goal,
                                              const DesiredElements* desired,
                                              Mode mode);

// Whether the kernel has each of `elements`, as it is wanted.
enum class Presence { kSame, kMissing, kDifferent };
[[nodiscard]] std::vector<Presence> FindPresences(nft::Socket& socket,
                                                  const std::vector<nft::Element>& elements);

[[nodiscard]] Mismatch MismatchOf(const Tables& tables,
                                  const nft::Element& element,
                                  Presence presence);

// An element that belongs to an owner who is not among Change::stale_owners.
struct Conflict {
  nft::Element wanted;
  nft::Element present;  // present.owner() is the other owner
};

struct Change {
  // Sets, counters and chains that elements of `add` need: those that the kernel lacks are made. A
  // chain that is there has its rules.
  nft::Table make = {.id = {}};
  // There afterwards; one of the same owner with other data or comment is replaced.
  std::vector<nft::Element> add;
  // Gone afterwards, unless it belongs to another owner than its comment names.
  std::vector<nft::Element> remove_owned;
  // Gone afterwards: shared ones that no network needs any more.
  std::vector<nft::Element> remove_shared;
  // Owners whose elements those of `add` may replace.
  std::vector<std::string> stale_owners;
};

struct CommitResult {
  // The one after the change. nullopt: `generation` has passed, and nothing was changed.
  std::optional<std::uint32_t> generation;
  std::optional<Conflict> conflict;  // if set, nothing was changed
  std::optional<Error> refusal;      // likewise: the table is not what the generation stands for
};

// Plans `change` of our tables, which are in force at `generation`, and commits it as one batch.
[[nodiscard]] CommitResult Commit(nft::Socket& socket,
                                  const Change& change,
                                  std::uint32_t generation);

// Removes those of `elements` that have an owner and still belong to it, and all of `shared`. No
// table, or no such element: success. Returns the next generation; nullopt if `generation` had
// passed.
std::optional<std::uint32_t> RemoveElements(nft::Socket& socket,
                                            const std::vector<nft::Element>& elements,
                                            std::optional<std::uint32_t> generation,
                                            const std::vector<nft::Element>& shared = {});

// Every element in our tables but those that rules add, and those that have an owner: for DEL
// without a record. One dump per set.
[[nodiscard]] std::vector<nft::Element> AllElements(nft::Socket& socket);
[[nodiscard]] std::vector<nft::Element> OwnedElements(nft::Socket& socket);

}  // namespace nomad_bridge::firewall
