// Our rules in the kernel: putting elements in, taking them out, and putting right what others
// broke.
//
// Atomic   Every function commits at most one batch, tied to the ruleset generation it was planned
//          on: if anybody changes any rule in between, the kernel refuses and it is planned anew
//          (up to base's patience, then kTryAgain).
// Trust    The kernel counts every ruleset change of a namespace (its generation). A caller who
//          remembers the generation after its last call passes it as `trusted`: if it is still the
//          kernel's, nobody has touched anything and nothing needs to be looked at. It is asked for by
//          the caller, who decides by it too; the batch itself is tied to it. Otherwise the
//          table's skeleton, the static rules and the elements of every living attachment are
//          compared with what should be there, and mended.
// Shared   The table, its chains, sets and rules, the static rules in the iptables tables, the
//          operator's chain: created if absent, never removed. The operator's chain is never
//          touched once it is there.
// Errors   kKernel, with the label of the message that failed; kConflict only through the returned
//          Conflict.
// Source   linux/netfilter/nf_tables.h, NFNL_BATCH_GENID (kernel 4.12).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::firewall {

// What a network wants of the static rules in table ip filter (and ip6 filter, if ipv6).
struct ForwardHook {
  std::string admin_chain = "NOMAD-ADMIN";  // empty: none of them, nothing is forwarded for it
  int accept_mark_bit = 12;                 // 0..31; one for the whole node
  bool ipv6 = false;

  bool operator==(const ForwardHook&) const = default;
};

// What should be in force for one living attachment.
struct DesiredState {
  ForwardHook forward_hook;
  std::vector<nft::Element> elements;
};

// An element that belongs to somebody who was not declared dead.
struct Conflict {
  nft::Element wanted;
  nft::Element present;  // present.owner() says whose it is
};

// What is taken to be in the kernel already. A batch that the kernel refuses costs more than a look,
// as it waits some 10 ms until nobody can have seen what it takes back.
enum class PlanMode {
  kAssumeAbsent,  // none of our own elements: the kernel says if one is there
  kLookUp,        // some may be: the elements in question are read one by one
  kVerify,        // everything that should be there is compared with what is
};

struct Change {
  ForwardHook forward_hook;
  // there afterwards; one of ours with other data or comment is replaced
  std::vector<nft::Element> add;
  // gone afterwards, where its owner is still the one its comment names
  std::vector<nft::Element> remove_owned;
  // gone afterwards: shared ones that no network needs any more
  std::vector<nft::Element> remove_shared;
  // owners whose elements may be taken over (replaced by those of `add`)
  std::vector<std::string> stale_owners;
  PlanMode mode = PlanMode::kAssumeAbsent;
  // What `forward_hook` and the shared ones of `add` ask for was made under the trusted generation, and
  // need not be looked up.
  bool shared_in_force = false;
};

struct Outcome {
  std::optional<Conflict> conflict;  // if set, nothing was changed
  // to be trusted from now on; nullopt if that cannot be said
  std::optional<std::uint32_t> generation;
  // what was missing or wrong and is right now, one phrase each
  std::vector<std::string> repaired;
};

using ListDesired = std::function<std::vector<DesiredState>()>;

// Makes `change` so. `living` is asked only if the ruleset cannot be trusted: the holdings of every
// other living attachment on the node, whose elements are put back where they are missing.
[[nodiscard]] Outcome Apply(nft::Socket& socket,
                            const nft::Table& table,
                            const Change& change,
                            std::optional<std::uint32_t> trusted,
                            const ListDesired& living);

// Takes out `elements` where their owner is still the one their comments name. No table, or no such
// element: success. Returns the generation to trust, given that `trusted` was right before.
std::optional<std::uint32_t> RemoveElements(nft::Socket& socket,
                                            const std::vector<nft::Element>& elements,
                                            std::optional<std::uint32_t> trusted);

// Every element in our table that has an owner: for GC, for DEL without a record. One dump per set.
[[nodiscard]] std::vector<nft::Element> OwnedElements(nft::Socket& socket);

// What Apply() would have to mend for `holding` (and the skeleton), changing nothing: for a
// read-only CHECK.
[[nodiscard]] std::vector<std::string> Diff(nft::Socket& socket,
                                            const nft::Table& table,
                                            const DesiredState& desired);

}  // namespace nomad_bridge::firewall
