#include "plugin/rules/policy_tables.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <set>
#include <utility>

#include <netinet/in.h>

#include "base/list.h"
#include "base/text.h"
#include "firewall/about.h"
#include "firewall/drops.h"
#include "firewall/table.h"
#include "plugin/rules/policy_admission.h"
#include "plugin/rules/policy_ports.h"

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

// Returns the set in which a rule of `step` looks up its peer; empty if it looks up none.
std::string PeerSetOf(const policy::Step& step, Family family) {
  using PeerIs = policy::Step::PeerIs;
  if (step.peer == PeerIs::kMember) {
    return SetFor(kSelected, family, step.peers);
  }
  if (step.peer == PeerIs::kAddress) {
    return SetFor(kPrefixes, family, step.peers);
  }
  return step.peer == PeerIs::kOutside ? SetName(kHere, family) : "";
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
    // meta priority 6e62:7072 goto in-<hash>-probes
    made.rules.push_back(
        nft::Rule().PriorityIs(firewall::kProbePriority).Goto(ChainOf(Packet::kProbe, chain.name)));
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
    AddSetOnce({.name = SetFor(noun, family, name),
                .key = {firewall::AddressType(family)},
                .data = {},
                .flags = flags},
               table);
  }
}

// Returns "since 2026-11-24T06:40:00Z", the comment of new counters.
std::string Since() {
  std::array<char, sizeof "since 2026-11-24T06:40:00Z"> text{};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(text.data(), text.size(), "since %Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

// Adds the sets and counters that the chain names.
void AddNamed(const policy::Chain& chain, const std::string& since, nft::Table& table) {
  for (const policy::Step& step : chain.steps) {
    if (step.peer == policy::Step::PeerIs::kMember) {
      AddSets(kSelected, step.peers, 0, table);
    } else if (step.peer == policy::Step::PeerIs::kAddress) {
      AddSets(kPrefixes, step.peers, nft::kInterval, table);
    }
    const auto is_same = [&](const nft::Counter& counter) { return counter.name == step.counter; };
    if (!step.counter.empty() && std::ranges::none_of(table.counters, is_same)) {
      table.counters.push_back({.name = step.counter, .comment = since});
    }
  }
}

// Calls `add` with each chain of `kinds` once: kinds may share chains.
template <typename Add>
void ForEachChain(const policy::Program& program, const Kinds& kinds, const Add& add) {
  std::set<std::string_view> done;
  for (const auto& kind : kinds) {
    for (const policy::Chain& chain : program.ChainsOf(kind.second)) {
      if (done.insert(chain.name).second) {
        add(chain);
      }
    }
  }
}

void AddToInet(const policy::Program& program, const Kinds& kinds, nft::Table& table) {
  const std::string since = Since();
  ForEachChain(program, kinds, [&](const policy::Chain& chain) {
    AddNamed(chain, since, table);
    for (const Packet packet : {Packet::kRequest, Packet::kProbe, Packet::kAnswer}) {
      table.chains.push_back(ChainFor(chain, packet));
    }
  });
  for (const auto& kind : kinds) {
    for (const std::string& set : program.JudgementOf(kind.second).sets) {
      AddSets(kSelected, set, 0, table);
    }
  }
}

void AddToPorts(const policy::Program& program, const Kinds& kinds, nft::Table& table) {
  ForEachChain(program, kinds, [&](const policy::Chain& chain) {
    if (chain.direction == policy::Direction::kTo && policy::Refuses(chain.name)) {
      AddPortChain(chain, table);
    }
  });
  for (const auto& kind : kinds) {
    for (const std::string& set : program.JudgementOf(kind.second).sets) {
      AddPortSet(set, table);
    }
  }
}

// Returns the prefixes of the set's family as elements of the set.
std::vector<nft::Element> IntervalsOf(const std::vector<Cidr>& prefixes,
                                      const nft::Set& set,
                                      nft::TableFamily family) {
  std::vector<nft::Element> elements;
  const auto add = [&](const Ip& key, bool ends) {
    elements.push_back({.set = set.name,
                        .key = firewall::AddressKey(key),
                        .family = family,
                        .ends_interval = ends});
  };
  for (const Cidr& prefix : prefixes) {
    if (firewall::AddressType(prefix.address.family()) != set.key.front()) {
      continue;
    }
    add(prefix.Network(), false);
    // The end is needed even if the next prefix begins there, because the kernel refuses two
    // beginnings in a row. If the end is unspecified, the prefix includes the last address of all.
    if (const Ip end = prefix.Last().Plus(1); !end.IsUnspecified()) {
      add(end, true);
    }
  }
  return elements;
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

std::set<std::string> SourceInterfaces(const state::Record& record) {
  std::set<std::string> links(record.link.foreign_host_ifnames.begin(),
                              record.link.foreign_host_ifnames.end());
  links.insert({record.link.bridge, record.link.gateway_ifname});
  links.erase("");
  return links;
}

bool IsJudged(const state::Record& record) {
  return (record.HasRules() || record.Has(cni::Part::kLink)) && !SourceInterfaces(record).empty();
}

policy::Judgement JudgementOf(const state::Record& record, const policy::Program& program) {
  return IsJudged(record) && !program.empty() ? program.JudgementOf(record.Workload())
                                              : policy::Judgement();
}

state::Record WithPolicies(state::Record record, const policy::Program& program) {
  record.rules.policy = {JudgementOf(record, program),
                         program.Revision(),
                         IsJudged(record) && program.ClosesAny() && !PortsOf(record).empty()};
  return record;
}

void RequirePolicies(const config::RulesConfig& rules,
                     const cni::PluginType& type,
                     state::Host& host) {
  const bool has_traffic = type.ProvidesRules() || type.Provides(cni::Part::kLink);
  if (has_traffic && rules.policy_required && !host.policy.AreApplied()) {
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

void AddPolicies(const policy::Program& program, const Kinds& kinds, firewall::Tables& tables) {
  for (nft::Table& table : tables) {
    if (!program.empty()) {
      table.id == firewall::TableId() ? AddToInet(program, kinds, table)
                                      : AddToPorts(program, kinds, table);
    }
  }
}

firewall::Tables TablesOfKind(const policy::Program& program, const state::Record& record) {
  firewall::Tables tables = {{.id = firewall::TableId()}};
  if (record.rules.policy.judges_ports) {
    tables.push_back({.id = firewall::TableId(nft::TableFamily::kBridge)});
  }
  if (record.rules.policy != state::Record::Policy()) {
    AddPolicies(program, {{"", record.Workload()}}, tables);
  }
  for (nft::Table& table : tables) {
    // A chain that looks up a missing list is refused, and the tables are then repaired: only that
    // knows which elements the list lacks.
    std::erase_if(table.sets, [](const nft::Set& set) { return set.flags == nft::kInterval; });
  }
  return tables;
}

nft::Table ChainsOfKind(const policy::Program& program, const cni::Workload& workload) {
  nft::Table table = {.id = firewall::TableId()};
  AddToInet(program, {{"", workload}}, table);
  return table;
}

std::string SetFor(std::string_view noun, Family family, std::string_view name) {
  return Cat(SetName(noun, family), '-', name);
}

void AddSetOnce(nft::Set set, nft::Table& table) {
  if (table.FindSet(set.name) == nullptr) {
    table.sets.push_back(std::move(set));
  }
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
    add(SetName(kHere, family), std::nullopt);
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

std::vector<nft::Element> ListElements(const policy::Program& program,
                                       const firewall::Tables& tables) {
  std::vector<nft::Element> elements;
  for (const nft::Table& table : tables) {
    for (const nft::Set& set : table.sets) {
      if (set.flags == nft::kInterval && firewall::IsMadeForPolicies(set.name)) {
        const std::string list = set.name.substr(set.name.find('-') + 1);
        Append(elements, IntervalsOf(program.Lists().at(list), set, table.id.family));
      }
    }
  }
  return elements;
}

}  // namespace nomad_bridge::rules
