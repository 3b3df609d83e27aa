#include "plugin/takeover/legacy_rules.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/foreign/tools.h"
#include "plugin/takeover/remove_found.h"

namespace nomad_bridge::takeover {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kAppend = "-A ";

struct Taken {
  std::string_view text;
  std::string word;  // the same without its quotes
};

// Up to the next `end` that stands outside quotes, which is taken away too.
Taken TakeUntil(std::string_view& rest, char end) {
  Taken taken;
  bool is_quoted = false;
  std::size_t i = 0;
  for (; i < rest.size() && (is_quoted || rest[i] != end); ++i) {
    if (rest[i] == '"') {
      is_quoted = !is_quoted;
      continue;
    }
    i += rest[i] == '\\' && is_quoted && i + 1 < rest.size() ? 1 : 0;  // the next is itself
    taken.word += rest[i];
  }
  taken.text = rest.substr(0, i);
  rest.remove_prefix(std::min(i + 1, rest.size()));
  return taken;
}

LegacyRule ParseRule(std::string_view text) {
  LegacyRule rule{.text = std::string(text)};
  rule.chain = TakeUntil(text, ' ').word;
  while (!text.empty()) {
    if (Taken taken = TakeUntil(text, ' '); !taken.text.empty()) {
      rule.words.push_back(std::move(taken.word));
    }
  }
  return rule;
}

bool AcceptsFor(const LegacyRule& rule, const Ip& ip) {
  const std::string host = Cidr::Host(ip).Text();
  return rule.words == Words{"-s", host, "-j", "ACCEPT"} ||
         rule.words ==
             Words{
                 "-d", host, "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-j", "ACCEPT"};
}

// The word after `option`; "" if the rule does not have it.
std::string ValueOf(const LegacyRule& rule, const std::string& option) {
  const auto found = std::ranges::find(rule.words, option);
  return found == rule.words.end() || std::next(found) == rule.words.end() ? "" : *std::next(found);
}

std::optional<cni::Part> FindPart(const std::string& table,
                                  const LegacyRule& rule,
                                  const Search& search) {
  const std::string comment = ValueOf(rule, "--comment");
  if (table == kLegacyNat && comment == ReferenceComment(search.id) &&
      (rule.chain == "POSTROUTING" || IsOwnReferenceChain(rule.chain))) {
    return cni::Part::kMasquerade;
  }
  if (table == kLegacyNat && rule.chain == "CNI-HOSTPORT-DNAT" &&
      comment == "dnat " + ReferenceComment(search.id)) {
    return cni::Part::kPorts;
  }
  const bool is_accept =
      std::ranges::any_of(search.addresses, [&](const Ip& ip) { return AcceptsFor(rule, ip); });
  return table == kLegacyFilter && rule.chain == "CNI-FORWARD" && is_accept
             ? std::optional(cni::Part::kForward)
             : std::nullopt;
}

// Where rules of `parts` may stand.
std::vector<std::string> TablesOf(const Search& search) {
  std::vector<std::string> tables;
  if (search.parts.contains(cni::Part::kMasquerade) || search.parts.contains(cni::Part::kPorts)) {
    tables.emplace_back(kLegacyNat);
  }
  if (search.parts.contains(cni::Part::kForward) && !search.addresses.empty()) {
    tables.emplace_back(kLegacyFilter);
  }
  return tables;
}

bool CanRead(Family family, const std::string& table) {
  const bool can = foreign::HasLegacyTools(family);
  if (!can) {
    LogLine("cannot look into table {}, ignoring: there is no {}-save",
            table,
            foreign::LegacyTool(family));
  }
  return can;
}

}  // namespace

// As Go's %q writes plain names: network names and container ids hold nothing to escape.
std::string ReferenceComment(const AttachmentId& id) {
  return Format("name: \"{}\" id: \"{}\"", id.network, id.container_id);
}

bool IsOwnReferenceChain(const std::string& chain) {
  constexpr std::size_t kLength = 28;
  return chain.size() == kLength && chain.starts_with("CNI-") &&
         chain.find_first_not_of("0123456789abcdef", kLength - 21) == chain.npos;
}

std::vector<LegacyRule> ParseLegacySave(std::string_view save) {
  std::vector<LegacyRule> rules;
  while (!save.empty()) {
    if (save.starts_with(kAppend)) {
      save.remove_prefix(kAppend.size());
      rules.push_back(ParseRule(TakeUntil(save, '\n').text));
    } else {
      save.remove_prefix(std::min(save.find('\n'), save.size() - 1) + 1);
    }
  }
  return rules;
}

std::vector<LegacyReferenceRule> FindLegacyRulesIn(std::span<const LegacyRule> rules,
                                                   const std::string& table,
                                                   const Search& search) {
  std::vector<LegacyReferenceRule> found;
  for (const LegacyRule& rule : rules) {
    const std::optional<cni::Part> part = FindPart(table, rule, search);
    if (part && search.parts.contains(*part)) {
      found.push_back({.part = *part, .rule = rule});
      for (const std::string& chain : {rule.chain, ValueOf(rule, "-j")}) {
        if (IsOwnReferenceChain(chain)) {
          found.back().own_chain = chain;
        }
      }
    }
  }
  return found;
}

std::string PlanLegacyRemoval(const std::string& table,
                              const std::vector<LegacyReferenceRule>& rules) {
  std::string plan = Cat('*', table, '\n');
  std::set<std::string> chains;
  for (const LegacyReferenceRule& rule : rules) {
    plan += Cat("-D ", rule.rule.text, '\n');
    if (!rule.own_chain.empty()) {
      chains.insert(rule.own_chain);
    }
  }
  for (const std::string& chain : chains) {
    plan += Cat("-F ", chain, "\n-X ", chain, '\n');
  }
  return plan + "COMMIT\n";
}

std::span<const LegacyRule> LegacyDumps::Of(Family family,
                                            const std::string& table,
                                            bool is_needed) {
  const auto [known, is_new] = tables_.try_emplace({family, table});
  std::optional<std::vector<LegacyRule>>& rules = known->second;
  if (is_new && !foreign::IsLegacyTableInUse(family, table)) {
    rules.emplace();
  }
  if (!rules && (is_needed || (is_new && CanRead(family, table)))) {
    rules = ParseLegacySave(foreign::SaveLegacyTable(family, table));
  }
  return rules ? std::span<const LegacyRule>(*rules) : std::span<const LegacyRule>();
}

void LegacyDumps::Forget(const LegacyFinding& finding) {
  std::vector<LegacyRule>& rules = *tables_.at({finding.family, finding.table});
  for (const LegacyReferenceRule& removed : finding.rules) {
    std::erase(rules, removed.rule);
  }
}

std::vector<LegacyFinding> FindLegacyRules(const Search& search, LegacyDumps& dumps) {
  std::vector<LegacyFinding> findings;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const std::string& table : TablesOf(search)) {
      std::vector<LegacyReferenceRule> rules =
          FindLegacyRulesIn(dumps.Of(family, table, !search.addresses.empty()), table, search);
      if (!rules.empty()) {
        findings.push_back({.family = family, .table = table, .rules = std::move(rules)});
      }
    }
  }
  return findings;
}

void RemoveLegacyRules(const Search& search, LegacyDumps& dumps) {
  RemoveFound<std::vector<LegacyFinding>>([&] { return FindLegacyRules(search, dumps); },
                                          [&](const std::vector<LegacyFinding>& found) {
                                            for (const LegacyFinding& finding : found) {
                                              foreign::ChangeLegacyTable(
                                                  finding.family,
                                                  PlanLegacyRemoval(finding.table, finding.rules));
                                              dumps.Forget(finding);
                                            }
                                          },
                                          [&] { dumps.ReadAgain(); });
}

}  // namespace nomad_bridge::takeover
