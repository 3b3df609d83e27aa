#include "plugin/rules/policy_tables.h"

#include <algorithm>
#include <set>
#include <utility>

#include <netinet/in.h>

#include "base/list.h"
#include "base/text.h"
#include "firewall/about.h"
#include "firewall/table.h"
#include "plugin/rules/policy_admission.h"

namespace nomad_bridge::rules {
namespace {

// Which packets of a connection a chain judges: the client's, the same packets of a probe of ours,
// or the answers to the client. Only the client's are counted and noted.
enum class Packet { kRequest, kProbe, kAnswer };

// Returns the name of the chain that judges such packets by the rules of `chain`.
std::string ChainOf(Packet packet, const std::string& chain) {
  return packet == Packet::kRequest ? chain
                                    : Cat(chain, packet == Packet::kProbe ? "-probes" : "-answers");
}

using firewall::kFamilies;
using firewall::SetName;

std::string SetFor(std::string_view noun, Family family, std::string_view name) {
  return Cat(SetName(noun, family), '-', name);
}

// Returns the set in which a rule of `step` looks up its peer; empty if it looks up none.
std::string PeerSetOf(const policy::Step& step, Family family) {
  using PeerIs = policy::Step::PeerIs;
  if (step.peer == PeerIs::kMember) {
    return SetFor(kSelected, family, step.peers);
  }
  if (step.peer == PeerIs::kAddress) {
    return SetFor(kPrefixes, family, step.peers);
  }
  return step.peer == PeerIs::kOutside ? SetName(firewall::kAlloc, family) : "";
}

// Turns one step of a chain into nf_tables rules: one rule, or one per family if it names
// addresses. The families differ in their sets, and in the number of ICMP.
class StepRules {
 public:
  StepRules(const policy::Step& step, bool is_in, Packet packet)
      : step_(step),
        packet_(packet),
        is_answer_(packet == Packet::kAnswer),
        is_about_source_(is_in != is_answer_),
        may_be_to_node_(!is_in && !is_answer_) {}

  [[nodiscard]] std::vector<nft::Rule> All() const {
    if (step_.peer == PeerIs::kNode && !may_be_to_node_) {
      return {};  // the node's own packets are not forwarded
    }
    if (packet_ == Packet::kProbe && OnlyCounts()) {
      return {};
    }
    if (!HasFamily()) {
      return {Completed(nft::Rule(), Family::kIpv4)};
    }
    std::vector<nft::Rule> rules;
    rules.reserve(kFamilies.size());
    for (const Family family : kFamilies) {
      rules.push_back(Completed(nft::Rule().Only(family), family));
    }
    return rules;
  }

 private:
  using PeerIs = policy::Step::PeerIs;

  [[nodiscard]] bool OnlyCounts() const {
    return step_.outcome == policy::Step::Outcome::kContinue ||
           step_.outcome == policy::Step::Outcome::kWouldRefuse;
  }
  [[nodiscard]] bool IsIcmp() const {
    return step_.ports && step_.ports->protocol == Protocol::kIcmp;
  }
  [[nodiscard]] bool HasFamily() const {
    return IsIcmp() || (step_.peer != PeerIs::kAnyone && step_.peer != PeerIs::kNode);
  }

  nft::Rule& MatchPeer(nft::Rule& rule, Family family) const {
    const std::string set = PeerSetOf(step_, family);
    if (set.empty()) {
      return step_.peer == PeerIs::kNode ? rule.DaddrIsLocal() : rule;
    }
    if (step_.peer == PeerIs::kOutside) {
      is_about_source_ ? rule.SaddrNotIn(set) : rule.DaddrNotIn(set);
      return may_be_to_node_ ? rule.DaddrIsNotLocal() : rule;
    }
    return is_about_source_ ? rule.SaddrIn(set) : rule.DaddrIn(set);
  }

  [[nodiscard]] nft::Rule Completed(nft::Rule rule, Family family) const {
    MatchPeer(rule, family);
    if (IsIcmp() && family == Family::kIpv6) {
      rule.L4Proto(IPPROTO_ICMPV6);
    } else if (step_.ports) {
      rule.L4Proto(static_cast<std::uint8_t>(step_.ports->protocol));
    }
    if (step_.ports && !step_.ports->AreAll()) {
      is_answer_ ? rule.Sport(step_.ports->first, step_.ports->last)
                 : rule.Dport(step_.ports->first, step_.ports->last);
    }
    if (!step_.counter.empty() && packet_ != Packet::kProbe) {
      rule.CountIn(step_.counter);
    }
    return Decided(std::move(rule)).Comment(step_.comment);
  }

  [[nodiscard]] nft::Rule Decided(nft::Rule rule) const {
    using Outcome = policy::Step::Outcome;
    switch (step_.outcome) {
      case Outcome::kReturn:
        return rule.Return();
      case Outcome::kGoto:
        return rule.Goto(ChainOf(packet_, step_.next));
      // An answer belongs to a flow that was noted, or let pass, when it began.
      case Outcome::kReject:
        return rule.Goto(is_noted_ ? kRecordAndRefuse : kRefuse);
      case Outcome::kDrop:
        return is_noted_ ? rule.Goto(kRecordAndDrop) : rule.Drop();
      case Outcome::kWouldRefuse:
        return is_noted_ ? rule.Jump(kRecordAudited) : rule;
      case Outcome::kContinue:
        break;
    }
    return rule;
  }

  const policy::Step& step_;
  Packet packet_;
  bool is_noted_ = packet_ == Packet::kRequest;
  bool is_answer_;
  bool is_about_source_;
  bool may_be_to_node_;
};

// Returns the chain with its rules. In the chain for packets to an allocation, the peer of a step
// is the packet's source; in the chain for packets from an allocation, its destination. For answers
// it is the other way round.
nft::Chain ChainFor(const policy::Chain& chain, Packet packet) {
  nft::Chain made = {.name = ChainOf(packet, chain.name)};
  if (packet == Packet::kRequest) {
    // meta mark 0x6e627072 goto in-<hash>-probes
    made.rules.push_back(nft::Rule().MarkIs(kProbeMark).Goto(ChainOf(Packet::kProbe, chain.name)));
  }
  const bool is_in = chain.direction == policy::Direction::kTo;
  for (const policy::Step& step : chain.steps) {
    Append(made.rules, StepRules(step, is_in, packet).All());
  }
  return made;
}

void AddSets(std::string_view noun,
             const std::string& name,
             std::uint32_t flags,
             nft::Table& table) {
  for (const Family family : kFamilies) {
    table.sets.push_back({.name = SetFor(noun, family, name),
                          .key = {firewall::AddressType(family)},
                          .data = {},
                          .flags = flags});
  }
}

// Adds what attachments of `kinds` need: their chains, the sets that they are members of, and the
// sets `selected`, which peers select.
void AddKinds(const policy::Program& program,
              const Kinds& kinds,
              std::set<std::string> selected,
              nft::Table& table) {
  std::map<std::string_view, const policy::Chain*> chains;  // kinds may share chains
  for (const auto& kind : kinds) {
    const policy::Judgement& judgement = program.JudgementOf(kind.second);
    selected.insert(judgement.sets.begin(), judgement.sets.end());
    for (const policy::Chain& chain : program.ChainsOf(kind.second)) {
      chains.emplace(chain.name, &chain);
    }
  }
  for (const auto& chain : chains) {
    for (const Packet packet : {Packet::kRequest, Packet::kProbe, Packet::kAnswer}) {
      table.chains.push_back(ChainFor(*chain.second, packet));
    }
  }
  for (const std::string& name : selected) {
    AddSets(kSelected, name, 0, table);
  }
}

bool HasPolicyChains(state::Host& host) {
  return host.nft.FindChain(firewall::TableId(), kJudge).has_value();
}

}  // namespace

bool KernelHasPolicies(state::Host& host) {
  const std::optional<firewall::About> about = firewall::FindAbout(host.nft);
  if (about && about->boot != host.boot) {
    return false;  // somebody has loaded a file with tables of an earlier boot
  }
  return (about && !about->policy_revision.empty()) || HasPolicyChains(host);
}

bool ArePoliciesInForce(state::Host& host) {
  const policy::Program& program = host.policy.Program();
  const std::optional<firewall::About> about = firewall::FindAbout(host.nft);
  return about && about->policy_revision == program.Revision() &&
         HasPolicyChains(host) != program.empty();
}

std::optional<Error> FindPolicyReadError(state::Host& host) {
  try {
    if (host.policy.IsThere()) {
      return std::nullopt;
    }
  } catch (const Error& error) {
    return error;
  }
  // If the rules were flushed, too, only the records show it.
  const auto names_policies = [](const state::Record& record) {
    return !record.rules.policy.revision.empty();
  };
  const bool are_lost =
      KernelHasPolicies(host) || std::ranges::any_of(host.records.All(), names_policies);
  return are_lost ? std::optional(state::PolicyFile::Damaged("the file is gone")) : std::nullopt;
}

void RequireReadablePolicies(state::Host& host) {
  if (std::optional<Error> unread = FindPolicyReadError(host)) {
    throw *std::move(unread);
  }
}

policy::Judgement JudgementOf(const state::Record& record, const policy::Program& program) {
  // An attachment with only an address or ports of ours is forwarded by another plugin's rules.
  return record.Has(cni::Part::kForward) && !program.empty()
             ? program.JudgementOf(record.Workload())
             : policy::Judgement();
}

state::Record WithPolicies(state::Record record, const policy::Program& program) {
  record.rules.policy = {JudgementOf(record, program), program.Revision()};
  return record;
}

void RequirePolicies(const config::RulesConfig& rules,
                     const cni::PluginType& type,
                     state::Host& host) {
  if (type.Provides(cni::Part::kForward) && rules.policy_required && !host.policy.AreApplied()) {
    throw Error(Code::kTryAgain,
                "policies are required on this node, and none were applied since it booted",
                "'policy.required' says so; apply at least one policy, or a file with "
                "\"policies\": []: nomad-bridge policy apply");
  }
}

// The name comes from what policies give an attachment, not from its labels. So jobs that policies
// treat alike share chains.
std::string KindNameOf(const policy::Judgement& judgement) {
  if (judgement == policy::Judgement()) {
    return {};
  }
  std::vector<std::string> names = {judgement.in.value_or("-"), judgement.out.value_or("-")};
  Append(names, judgement.sets);
  return Hex(StableHash(Joined(names, " ")), 16);
}

void AddKind(const state::Record& record, Kinds& kinds) {
  if (std::string kind = KindNameOf(record.rules.policy); !kind.empty()) {
    kinds.try_emplace(std::move(kind), record.Workload());
  }
}

void AddPolicies(const policy::Program& program,
                 const Kinds& kinds,
                 const std::string& created,
                 nft::Table& table) {
  std::set<std::string> selected;
  for (const auto& set : program.SetTexts()) {
    selected.insert(set.first);
  }
  AddKinds(program, kinds, std::move(selected), table);
  for (const auto& list : program.Lists()) {
    AddSets(kPrefixes, list.first, nft::kInterval, table);
  }
  for (const auto& counter : program.Counters()) {
    table.counters.push_back({.name = counter.first, .comment = created});
  }
}

nft::Table TableOfKind(const policy::Program& program, const cni::Workload& workload) {
  nft::Table table = {.id = firewall::TableId()};
  AddKinds(program, {{"", workload}}, {}, table);
  return table;
}

std::vector<nft::Element> PolicyElements(const state::Record& record, const std::string& comment) {
  const state::Record::Policy& policy = record.rules.policy;
  std::vector<nft::Element> elements;
  for (const Cidr& cidr : record.ipam.addresses) {
    const Family family = cidr.address.family();
    const auto add = [&](std::string set, std::optional<nft::Verdict> verdict) {
      elements.push_back({.set = std::move(set),
                          .key = firewall::AddressKey(cidr.address),
                          .data = {},
                          .verdict = std::move(verdict),
                          .comment = comment});
    };
    for (const std::string& set : policy.sets) {
      add(SetFor(kSelected, family, set), std::nullopt);
    }
    if (policy.MayRefuse()) {
      add(SetName(kJudged, family), std::nullopt);
    }
    using enum nft::Verdict::Code;
    if (policy.in) {
      add(SetName(kPolicyIn, family), nft::Verdict{kJump, *policy.in});
      add(SetName(kAnswersIn, family), nft::Verdict{kJump, ChainOf(Packet::kAnswer, *policy.in)});
    }
    if (policy.out) {
      add(SetName(kPolicyOut, family), nft::Verdict{kJump, *policy.out});
      add(SetName(kAnswersOut, family), nft::Verdict{kJump, ChainOf(Packet::kAnswer, *policy.out)});
    }
  }
  return elements;
}

std::vector<nft::Element> ListElements(const policy::Program& program) {
  std::vector<nft::Element> elements;
  for (const auto& [name, prefixes] : program.Lists()) {
    for (const Cidr& prefix : prefixes) {
      const std::string set = SetFor(kPrefixes, prefix.address.family(), name);
      elements.push_back({.set = set, .key = firewall::AddressKey(prefix.Network())});
      // The end is needed even if the next prefix begins there, because the kernel refuses two
      // beginnings in a row. If the end is unspecified, the prefix includes the last address of
      // all.
      if (const Ip end = prefix.Last().Plus(1); !end.IsUnspecified()) {
        elements.push_back({.set = set, .key = firewall::AddressKey(end), .ends_interval = true});
      }
    }
  }
  return elements;
}

}  // namespace nomad_bridge::rules
