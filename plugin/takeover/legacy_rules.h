// What the reference plugins hold for one attachment in tables of iptables-legacy, which nf_tables
// does not show: found and removed by iptables-legacy's own tools.
//
// Shapes   The rules of plugin/takeover/reference.h as iptables-legacy-save prints them, recognised
//          in the same way; those in the chain for masquerading also by their own comment. An
//          accept must be the reference's, word for word.
//          iptables-legacy-save prints a rule a line, "-A CHAIN words...". A word with anything
//          unusual in it stands in double quotes, with a backslash before each quote and backslash
//          in it; a line break between quotes is part of the word.
// Costs    A tool for each table and family that is in use and may hold what is asked for, and one
//          for each that is changed; none is started where no such table is in use.
// Errors   kKernel, naming the tool that is missing or fails. Without addresses a missing one is
//          only logged: the node may have no other use for it (only kube-proxy in containers), and
//          an attachment without an address must remain removable.
// Source   iptables 1.8: xtables_save_string(), add_argv().
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "plugin/cni/plugin_type.h"

namespace nomad_bridge::takeover {

// The comment on the jump to the attachment's chain for masquerading; with "dnat " before it, on
// that to the chain for its ports.
[[nodiscard]] std::string ReferenceComment(const AttachmentId& id);

// Whether `chain` is named like a chain that belongs to one attachment alone.
[[nodiscard]] bool IsOwnReferenceChain(const std::string& chain);

// What is looked for: the rules that make up `parts` of one attachment. Nothing but the addresses
// it had identifies those that accept its packets.
struct Search {
  AttachmentId id;
  std::vector<Ip> addresses;
  cni::Parts parts;
};

struct LegacyRule {
  std::string chain;
  std::vector<std::string> words;  // after the chain, without their quotes
  std::string text;                // "CHAIN words...", as printed: with "-D " before it, it is gone

  bool operator==(const LegacyRule&) const = default;
};

constexpr const char* kLegacyNat = "nat";
constexpr const char* kLegacyFilter = "filter";

struct LegacyReferenceRule {
  cni::Part part = cni::Part::kMasquerade;
  LegacyRule rule;
  std::string own_chain;  // the attachment's own, that it jumps to or stands in; else empty

  bool operator==(const LegacyReferenceRule&) const = default;
};

// What one table holds of an attachment.
struct LegacyFinding {
  Family family = Family::kIpv4;
  std::string table;
  std::vector<LegacyReferenceRule> rules;  // at least one

  bool operator==(const LegacyFinding&) const = default;
};

// The tables, each read once: for as long as nobody needs to see what others change.
class LegacyDumps {
 public:
  // None if the table is not in use. If the tools are missing: `is_needed` is an error, else only
  // logged.
  [[nodiscard]] std::span<const LegacyRule> Of(Family family,
                                               const std::string& table,
                                               bool is_needed);
  // These have been removed.
  void Forget(const LegacyFinding& finding);
  void ReadAgain() { tables_.clear(); }

 private:
  // nullopt: in use, and not read.
  std::map<std::pair<Family, std::string>, std::optional<std::vector<LegacyRule>>> tables_;
};

[[nodiscard]] std::vector<LegacyFinding> FindLegacyRules(const Search& search, LegacyDumps& dumps);

// Removes them.
void RemoveLegacyRules(const Search& search, LegacyDumps& dumps);

// Pure: the rules in the tool's output for one table, in their order.
[[nodiscard]] std::vector<LegacyRule> ParseLegacySave(std::string_view save);

// Pure: those in `rules`, which `table` holds.
[[nodiscard]] std::vector<LegacyReferenceRule> FindLegacyRulesIn(std::span<const LegacyRule> rules,
                                                                 const std::string& table,
                                                                 const Search& search);

// Pure: the input with which iptables-legacy-restore removes `rules` and the chains of their own.
[[nodiscard]] std::string PlanLegacyRemoval(const std::string& table,
                                            const std::vector<LegacyReferenceRule>& rules);

}  // namespace nomad_bridge::takeover
