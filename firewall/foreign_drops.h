// Finds base chains of other programs that drop what we accept. For iptables there are the static
// rules (firewall/static_rules.h), for firewalld its zones. Any other chain must be changed by its
// owner, so we report it.
//
// Shapes  A chain at the forward hook that drops everything, as its structure shows: by its policy,
//         or by a rule that all new connections reach. To fix a chain after ours, its owner adds a
//         rule that accepts our mark. In a chain before ours, the rule must accept the bridges,
//         because packets have no mark yet. In FORWARD of iptables, our jump must come first. Each
//         command adds its rule directly before the drop, so rules before that stay in force.
// Limits  Leaves out a chain if its rules accept new connections both to and from our bridges: by
//         our mark, a bridge or an allocation's address, or from and to other links or addresses. A
//         rule whose test is unclear (another mark, a concatenation, a rate, an extension of
//         iptables, a queue) may accept both. A rule for ports, or for other states or protocols
//         than a new TCP connection has, accepts neither. If a rule names us and accepts only one
//         direction, the other may be closed on purpose: a warning. Leaves out the chains of
//         firewalld, and drops in a chain for the operator's own rules. Does not see the rules of
//         iptables-legacy.
// Costs   One dump of all chains; one of the rules of each chain that packets reach before they are
//         accepted; one of each set that a rule there looks up.
// Errors  kKernel and kTryAgain from reading.
// Source  nft --debug=netlink shows the expressions of a rule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

// Chains for an operator's own rules, in the tables of iptables. What they drop is meant.
inline constexpr std::array<std::string_view, 7> kOperatorsChains = {"DOCKER-USER",
                                                                     "ufw-user-forward",
                                                                     "ufw6-user-forward",
                                                                     "ufw-user-input",
                                                                     "ufw6-user-input",
                                                                     "ufw-user-output",
                                                                     "ufw6-user-output"};

// A rule, by its handle, or with handle 0 the end of a base chain, where its policy decides.
struct RulePlace {
  std::string chain;
  std::uint64_t handle = 0;

  bool operator==(const RulePlace&) const = default;
};

// Returns the beginning of a command that adds a rule directly before `place`: "nft insert rule
// inet mine forward handle 7 ", "nft add rule inet mine forward ".
[[nodiscard]] std::string AddRuleBefore(const nft::TableId& table, const RulePlace& place);

// The same for a table of iptables, which knows rules by their number: "iptables -t filter -I
// FORWARD 3 ", or with number 0 "iptables -t filter -A FORWARD ".
[[nodiscard]] std::string AddIptablesRule(const nft::TableId& table,
                                          const std::string& chain,
                                          std::size_t number);
// Returns the number of the rule with that handle; 0 if there is none.
[[nodiscard]] std::size_t NumberOfRule(const std::vector<nft::KernelRule>& rules,
                                       std::uint64_t handle);

// "meta mark and 0x1000 == 0x1000 "
[[nodiscard]] std::string NftMatchOfMark(int accept_mark_bit);

// "chain forward of table inet mine (policy drop) comes after ours and drops"
[[nodiscard]] FindingList FindForeignDrops(nft::Socket& socket, int accept_mark_bit);

// Returns the fix that FindForeignDrops() has for the rule or policy at `drop`, if it drops
// everything.
[[nodiscard]] std::optional<Fix> FindFixOfDrop(nft::Socket& socket,
                                               int accept_mark_bit,
                                               const nft::TableId& table,
                                               const RulePlace& drop);

}  // namespace nomad_bridge::firewall
