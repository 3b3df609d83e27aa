// Our rules in the kernel: adding and removing elements, and repairing what others changed.
//
// Atomic      Every function commits at most one batch, tied to the ruleset generation it was planned
//             on. If others change any rule in between, the kernel refuses it and it is planned anew,
//             up to kTimeout.
// Checkpoint  The generation after the caller's last change. The kernel counts every change of a
//             namespace's ruleset, so while the checkpoint is still the kernel's generation, nothing
//             has been changed and nothing needs to be compared. Otherwise the table's skeleton, the
//             static rules and the elements of every live attachment are compared with what should
//             be there, and repaired.
// Shared      The table, its chains, sets and rules, the static rules in the iptables tables, the
//             operator's chain: created if absent, never removed. The operator's chain is never
//             touched once it is there.
// Errors      kKernel, with the label of the message that was refused; kTryAgain. An element of
//             another owner is no error here, but a Conflict.
// Locks       None here. The caller holds the rules' lock while it uses and moves a checkpoint.
// Source      linux/netfilter/nf_tables.h, NFNL_BATCH_GENID (kernel 4.12).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "firewall/forward_hook.h"
#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::firewall {

// What should be in force for one live attachment.
struct DesiredState {
  ForwardHook forward_hook;
  std::vector<nft::Element> elements;
};

// An element that belongs to an owner who is not among Change::stale_owners.
struct Conflict {
  nft::Element wanted;
  nft::Element present;  // present.owner() is the other owner
};

// What is assumed about the kernel's elements. A batch that the kernel refuses costs more than a
// look: some 10 ms, until no packet can be using what is rolled back.
enum class PlanMode {
  kAssumeAbsent,  // none of our own elements is there: the kernel refuses the batch if one is
  kLookUp,        // some may be: the elements in question are read one by one
  kVerify,        // everything that should be there is compared with what is
};

struct Change {
  ForwardHook forward_hook;
  // There afterwards; one of the same owner with other data or comment is replaced.
  std::vector<nft::Element> add;
  // Gone afterwards, unless it belongs to another owner than its comment names.
  std::vector<nft::Element> remove_owned;
  // Gone afterwards: shared ones that no network needs any more.
  std::vector<nft::Element> remove_shared;
  // Owners whose elements those of `add` may replace.
  std::vector<std::string> stale_owners;
  PlanMode mode = PlanMode::kAssumeAbsent;
  // What `forward_hook` and the shared elements of `add` need has been there since the checkpoint, and
  // is not looked up.
  bool shared_in_force = false;
};

struct Outcome {
  std::optional<Conflict> conflict;  // if set, nothing was changed
  // The next checkpoint.
  std::optional<std::uint32_t> generation;
  // What was missing or different and is right now.
  std::vector<std::string> repaired;
};

using ListDesired = std::function<std::vector<DesiredState>()>;

// Makes `change`. `list_desired` is called only if the checkpoint has passed: the desired state of every
// other live attachment on the node, which is restored first.
[[nodiscard]] Outcome Apply(nft::Socket& socket,
                            const nft::Table& table,
                            const Change& change,
                            std::optional<std::uint32_t> checkpoint,
                            const ListDesired& list_desired);

// Removes those of `elements` that have an owner and still belong to it. No table, or no such
// element: success. Returns the next checkpoint; nullopt if `checkpoint` had passed.
std::optional<std::uint32_t> RemoveElements(nft::Socket& socket,
                                            const std::vector<nft::Element>& elements,
                                            std::optional<std::uint32_t> checkpoint);

// Every element in our table that has an owner: for GC, for DEL without a record. One dump per set.
[[nodiscard]] std::vector<nft::Element> OwnedElements(nft::Socket& socket);

// What Apply() would repair for `desired` and in the skeleton, changing nothing: for a read-only
// CHECK.
[[nodiscard]] std::vector<std::string> Diff(nft::Socket& socket,
                                            const nft::Table& table,
                                            const DesiredState& desired);

}  // namespace nomad_bridge::firewall
