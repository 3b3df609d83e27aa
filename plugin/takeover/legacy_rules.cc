#include "plugin/takeover/legacy_rules.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "base/text.h"

namespace nomad_bridge::takeover {
namespace {

using Words = std::vector<std::string>;

Words AcceptFrom(const Ip& ip) {
  return {"-s", Cidr::Host(ip).Text(), "-j", "ACCEPT"};
}

Words AcceptAnswersTo(const Ip& ip) {
  return {"-d",
          Cidr::Host(ip).Text(),
          "-m",
          "conntrack",
          "--ctstate",
          "RELATED,ESTABLISHED",
          "-j",
          "ACCEPT"};
}

// The word after `option`; "" if the rule does not have it, or has it the other way round.
std::string ValueOf(const LegacyRule& rule, const std::string& option) {
  const auto found = std::find(rule.words.begin(), rule.words.end(), option);
  const bool is_negated =
      found != rule.words.begin() && found != rule.words.end() && *std::prev(found) == "!";
  return found == rule.words.end() || std::next(found) == rule.words.end() || is_negated
             ? ""
             : *std::next(found);
}

// "80,443" has "80".
bool HasElement(const std::string& list, const std::string& element) {
  return Cat(',', list, ',').find(Cat(',', element, ',')) != std::string::npos;
}

std::optional<ReferencePart> FindPart(const std::string& table,
                                      const LegacyRule& rule,
                                      const AttachmentId& id,
                                      const std::vector<Ip>& addresses) {
  const std::string comment = ValueOf(rule, "--comment");
  if (table == kLegacyNat && comment == ReferenceComment(id) &&
      (rule.chain == "POSTROUTING" || IsOwnReferenceChain(rule.chain))) {
    return ReferencePart::kMasquerade;
  }
  if (table == kLegacyNat && rule.chain == "CNI-HOSTPORT-DNAT" &&
      comment == "dnat " + ReferenceComment(id)) {
    return ReferencePart::kPorts;
  }
  const bool is_accept = std::any_of(addresses.begin(), addresses.end(), [&](const Ip& ip) {
    return rule.words == AcceptFrom(ip) || rule.words == AcceptAnswersTo(ip);
  });
  return table == kLegacyFilter && rule.chain == "CNI-FORWARD" && is_accept
             ? std::optional(ReferencePart::kForward)
             : std::nullopt;
}

}  // namespace

std::vector<LegacyReferenceRule> FindLegacyReferenceRules(const std::string& table,
                                                          std::string_view save,
                                                          const AttachmentId& id,
                                                          const std::vector<Ip>& addresses) {
  const std::vector<LegacyRule> all = ParseLegacySave(save);
  std::vector<LegacyReferenceRule> found;
  for (const LegacyRule& rule : all) {
    const std::optional<ReferencePart> part = FindPart(table, rule, id, addresses);
    if (!part) {
      continue;
    }
    LegacyReferenceRule his{.part = *part, .rule = rule, .own_chain = {}, .own_rules = {}};
    for (const std::string& chain : {rule.chain, ValueOf(rule, "-j")}) {
      his.own_chain = IsOwnReferenceChain(chain) ? chain : his.own_chain;
    }
    std::copy_if(
        all.begin(), all.end(), std::back_inserter(his.own_rules), [&](const LegacyRule& each) {
          return each.chain == his.own_chain;
        });
    found.push_back(std::move(his));
  }
  return found;
}

std::string PlanLegacyRemoval(const std::string& table,
                              const std::vector<LegacyReferenceRule>& rules) {
  std::string plan = Cat('*', table, '\n');
  std::set<std::string> chains;
  for (const LegacyReferenceRule& his : rules) {
    plan += Cat("-D ", his.rule.text, '\n');
    if (!his.own_chain.empty()) {
      chains.insert(his.own_chain);
    }
  }
  for (const std::string& chain : chains) {
    plan += Cat("-F ", chain, "\n-X ", chain, '\n');
  }
  return plan + "COMMIT\n";
}

bool HasMasquerade(const std::vector<LegacyReferenceRule>& rules, const Ip& ip) {
  return std::any_of(rules.begin(), rules.end(), [&](const LegacyReferenceRule& his) {
    return his.part == ReferencePart::kMasquerade &&
           ValueOf(his.rule, "-s") == Cidr::Host(ip).Text() &&
           std::any_of(his.own_rules.begin(), his.own_rules.end(), [](const LegacyRule& rule) {
             return ValueOf(rule, "-j") == "MASQUERADE";
           });
  });
}

bool HasForwardAccepts(const std::vector<LegacyReferenceRule>& rules, const Ip& ip) {
  const auto has = [&](const Words& words) {
    return std::any_of(rules.begin(), rules.end(), [&](const LegacyReferenceRule& his) {
      return his.part == ReferencePart::kForward && his.rule.words == words;
    });
  };
  return has(AcceptFrom(ip)) && has(AcceptAnswersTo(ip));
}

bool HasDnat(const std::vector<LegacyReferenceRule>& rules,
             const std::string& protocol,
             std::uint16_t port) {
  const auto leads = [&](const LegacyRule& rule) {
    return ValueOf(rule, "-p") == protocol && ValueOf(rule, "--dport") == Cat(port) &&
           ValueOf(rule, "-j") == "DNAT";
  };
  return std::any_of(rules.begin(), rules.end(), [&](const LegacyReferenceRule& his) {
    return his.part == ReferencePart::kPorts && ValueOf(his.rule, "-p") == protocol &&
           HasElement(ValueOf(his.rule, "--dports"), Cat(port)) &&
           std::any_of(his.own_rules.begin(), his.own_rules.end(), leads);
  });
}

}  // namespace nomad_bridge::takeover
