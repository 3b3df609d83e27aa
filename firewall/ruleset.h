// Compares our rules in the kernel with what they should be, and repairs them.
//
// Atomic   Compare() commits the repair in one batch, tied to the generation of the ruleset that it
//          was planned on. If others change any rule in between, it plans again. A second batch
//          writes the hash of the rules into the tables (about.h), once the kernel shows them.
// Adds     A repair adds what is missing, and corrects what differs. It removes chains and sets
//          that the tables should not have, and elements by which policies judge an attachment
//          that they judge otherwise now. It removes no other elements of attachments that nothing
//          explains: the DEL of their owner, an ADD that takes over their address or port, and gc
//          remove these.
// Shared   The table, its chains, sets and rules, the static rules in the iptables tables and the
//          operator's chain are created if absent, and stay when the last attachment goes. Once the
//          operator's chain exists, we never change it.
// Errors   kKernel, with the label of the message that was refused; kTryAgain if others keep
//          changing the ruleset.
// Locks    None here. The caller holds the rules' lock for a repair.
// Source   linux/netfilter/nf_tables.h, NFNL_BATCH_GENID (kernel 4.12).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/finding.h"
#include "firewall/about.h"
#include "firewall/contributor.h"
#include "firewall/forward_hook.h"
#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

// What the kernel should have.
struct Goal {
  // Our tables, and their description, in which About::rules does not matter. If there are no
  // tables, only the static rules are compared.
  Tables tables = {};
  About about = {};
  // Elements of live attachments and of policies. Several elements may have one key and different
  // owners. The kernel then gets the element of the owner that has the key in the kernel already,
  // or else the first of them.
  std::vector<nft::Element> elements = {};
  // In these sets, and in those made for policies, the owners have no other elements: any other is
  // removed. What others own there stays: an attachment without a record keeps its policies.
  struct Exact {
    std::set<std::string> sets;
    std::set<std::string> owners;
  } exact = {};
  std::vector<ForwardHook> forward_hooks = {};  // all with the same mark bit
};

// Compares the ruleset with `goal`, and in mode kRepair makes it so. Returns what differed. If any
// rule of a table differs, all its chains are flushed and filled again; sets, elements and counters
// stay. A set or base chain of another shape cannot be changed in place: then the whole table is
// replaced, and so is a table of an earlier boot.
[[nodiscard]] FindingList Compare(nft::Socket& socket, const Goal& goal, Mode mode);

}  // namespace nomad_bridge::firewall
