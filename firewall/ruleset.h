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

#include "netlink/nft_element.h"
#include "netlink/nft_socket.h"
#include "netlink/nft_table.h"

namespace nomad_bridge::firewall {

// What a network wants of the static rules in table ip filter (and ip6 filter, if ipv6).
struct Policy {
  std::string admin_chain = "NOMAD-ADMIN";  // empty: none of them, nothing is forwarded for it
  int accept_mark_bit = 12;                 // 0..31; one for the whole node
  bool ipv6 = false;

  bool operator==(const Policy&) const = default;
};

// What should be in force for one living attachment.
struct Holding {
  Policy policy;
  std::vector<NftElement> elements;
};

// An element that belongs to somebody who was not declared dead.
struct Conflict {
  NftElement wanted;
  NftElement present;  // present.owner() says whose it is
};

struct Change {
  Policy policy;
  // there afterwards; one of ours with other data or comment is replaced
  std::vector<NftElement> wanted;
  // gone afterwards, where its owner is still the one its comment names
  std::vector<NftElement> unwanted;
  // gone afterwards: shared ones that no network needs any more
  std::vector<NftElement> retired;
  // owners whose elements may be taken over (replaced by wanted ones)
  std::vector<std::string> dead;
  // Some of `wanted` may be in force already. They are looked up first: a batch that the kernel
  // refuses costs more, as it waits some 10 ms until nobody can have seen what it takes back.
  bool again = false;
  // What `policy` and the shared ones of `wanted` ask for was made under the trusted generation, and
  // need not be looked up.
  bool shared_is_there = false;
};

struct Outcome {
  std::optional<Conflict> conflict;  // if set, nothing was changed
  // to be trusted from now on; nullopt if that cannot be said
  std::optional<std::uint32_t> generation;
  // what was missing or wrong and is right now, one phrase each
  std::vector<std::string> mended;
};

using HoldingsOfLiving = std::function<std::vector<Holding>()>;

// Makes `change` so. `living` is asked only if the ruleset cannot be trusted: the holdings of every
// other living attachment on the node, whose elements are put back where they are missing.
[[nodiscard]] Outcome Apply(NftSocket& socket,
                            const NftTable& table,
                            const Change& change,
                            std::optional<std::uint32_t> trusted,
                            const HoldingsOfLiving& living);

// Takes out `elements` where their owner is still the one their comments name. No table, or no such
// element: success. Returns the generation to trust, given that `trusted` was right before.
std::optional<std::uint32_t> Withdraw(NftSocket& socket,
                                      const std::vector<NftElement>& elements,
                                      std::optional<std::uint32_t> trusted);

// Every element in our table that has an owner: for GC, for DEL without a record. One dump per set.
[[nodiscard]] std::vector<NftElement> OwnedElements(NftSocket& socket);

// What Apply() would have to mend for `holding` (and the skeleton), changing nothing: for a
// read-only CHECK.
[[nodiscard]] std::vector<std::string> Missing(NftSocket& socket,
                                               const NftTable& table,
                                               const Holding& holding);

}  // namespace nomad_bridge::firewall
