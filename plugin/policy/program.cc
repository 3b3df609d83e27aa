// Compiles the policies of a workload into the steps that a new connection passes.
//
// Only enforced policies decide. Audited policies are tried after them, on what the enforced ones
// let pass, by a chain that only counts. In both cases, a policy with `only` sets policies without
// `only` aside.
#include "plugin/policy/program.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"

namespace nomad_bridge::policy {
namespace {

// All 64 bits: if two sets had one name, a policy would let in allocations that it does not name.
constexpr int kNameDigits = 16;
constexpr int kCounterDigits = 4;
// Part of the name of a chain that only counts.
constexpr std::string_view kAudit = "audit-";
// Comments in nf_tables are limited to 128 bytes.
constexpr std::size_t kMaxCommentBytes = 100;

using PolicyList = std::vector<const Policy*>;

// Returns an unambiguous text of a selector, for a hash. No label contains a tab.
std::string KeyOf(const Selector& selector) {
  return Cat(selector.nomad_namespace, '\t', selector.job, '\t', selector.group);
}

// Returns an unambiguous text of an entry, for a hash.
std::string KeyOf(const Entry& entry) {
  std::string key;
  for (const Ports& ports : entry.ports) {
    key += Cat(Text(ports), '\n');
  }
  for (const Peer& peer : entry.peers) {
    key += Cat(static_cast<int>(peer.kind), '\t', KeyOf(peer.selector), '\t', peer.addresses, '\n');
  }
  return key;
}

// Names the counter of `part` of a policy, with a hash of the content: another rule has another
// counter. Neither `part` nor a hash contains '-', so names of different policies differ.
std::string CounterName(const Policy& policy, std::string_view part, std::string_view content) {
  return Cat(policy.name, '-', part, '-', Hex(StableHash(content), kCounterDigits));
}

// The name of the counter of a step, and the rule that the step belongs to, "api#0".
struct Counted {
  std::string counter;
  std::string rule;
};

Counted AllowOf(const Policy& policy, std::size_t index) {
  return {CounterName(policy, Cat(index), KeyOf(policy.allow[index])),
          Cat(policy.name, '#', index)};
}

// An audited policy has a counter of its own: it did not refuse what it counts.
Counted DenyOf(const Policy& policy, std::size_t index) {
  const std::string content = Cat(KeyOf(policy.deny[index]), policy.is_audited ? "audit" : "");
  return {CounterName(policy, Cat("deny", index), content), Cat(policy.name, "#deny", index)};
}

std::string InWords(const Peer& peer) {
  if (peer.kind == Peer::Kind::kSelector) {
    return Text(peer.selector);
  }
  return peer.kind == Peer::Kind::kAddresses ? peer.addresses
                                             : std::string(NameOf(kPeerWords, peer.kind));
}

// Returns "allow from same-namespace, office ports tcp/8080".
std::string InWords(std::string_view verb, Direction direction, const Entry& entry) {
  const std::string ports = Joined(entry.ports, ", ", [](const Ports& each) { return Text(each); });
  return Cat(verb,
             direction == Direction::kTo ? " from " : " to ",
             Joined(entry.peers, ", ", [](const Peer& each) { return InWords(each); }),
             ports.empty() ? "" : " ports ",
             ports);
}

// Returns the counter of connections that no `allow` lets pass.
Counted DefaultOf(const Policy& policy) {
  return {CounterName(policy, policy.is_audited ? "would" : "refused", Text(policy.selector)),
          policy.name};
}

// Returns the policies of one direction that no `only` sets aside.
PolicyList Consider(const std::vector<Policy>& selected, Direction direction, bool with_audited) {
  PolicyList policies;
  for (const Policy& policy : selected) {
    if (policy.direction == direction && (with_audited || !policy.is_audited)) {
      policies.push_back(&policy);
    }
  }
  if (std::ranges::any_of(policies, &Policy::only)) {
    std::erase_if(policies, [](const Policy* policy) { return !policy->only; });
  }
  return policies;
}

PolicyList Closed(PolicyList policies) {
  std::erase_if(policies, [](const Policy* policy) { return !policy->is_closed; });
  return policies;
}

// Hashes the exact selector, not its text for people: a job may have spaces in its name.
std::string SetName(const Selector& selector) {
  return Hex(StableHash(KeyOf(selector)), kNameDigits);
}

// Names the set of exactly this namespace; characters such as '*' are no glob here.
std::string NamespaceSetName(std::string_view nomad_namespace) {
  return Hex(StableHash(nomad_namespace), kNameDigits);
}

// Makes the chains of one direction for allocations of `nomad_namespace`.
class Maker {
 public:
  Maker(Direction direction, std::string_view nomad_namespace, const ListNames& lists)
      : direction_(direction), nomad_namespace_(nomad_namespace), lists_(lists) {}

  [[nodiscard]] std::vector<Chain> Make(const std::vector<Policy>& selected) const {
    const PolicyList enforced = Consider(selected, direction_, false);
    const PolicyList all = Consider(selected, direction_, true);
    std::vector<Step> steps;
    for (const Policy* const policy : enforced) {
      AddDenies(steps, *policy);
    }
    for (const Policy* const policy : all) {
      if (policy->is_audited) {
        AddDenies(steps, *policy);
      }
    }
    std::vector<Chain> chains;
    std::vector<Step> trial;
    if (const PolicyList closed = Closed(all); std::ranges::any_of(closed, &Policy::is_audited)) {
      AddClosed(trial, closed, "", Stage::kTrial);
    }
    if (const PolicyList closed = Closed(enforced); closed.empty()) {
      Append(steps, std::move(trial));
    } else {
      AddChain(chains, std::move(trial));
      AddClosed(steps, closed, chains.empty() ? "" : chains.front().name, Stage::kEnforced);
      AddRefusal(steps, closed);
    }
    AddChain(chains, std::move(steps));
    return chains;
  }

 private:
  // kTrial comes after kEnforced: it tries audited policies on what enforced policies let pass.
  enum class Stage { kEnforced, kTrial };

  void AddChain(std::vector<Chain>& chains, std::vector<Step> steps) const {
    if (steps.empty()) {
      return;
    }
    std::string text;
    for (const Step& step : steps) {
      text += Cat(static_cast<int>(step.peer), '\t', step.peers, '\t');
      text += Cat(step.ports ? Text(*step.ports) : "", '\t', step.counter);
      text += Cat('\t', static_cast<int>(step.outcome));
      text += Cat('\t', step.next, '\t', step.comment, '\n');
    }
    const bool refuses = std::ranges::any_of(steps, [](const Step& step) {
      return step.outcome == Step::Outcome::kReject || step.outcome == Step::Outcome::kDrop;
    });
    chains.push_back({.name = Cat(direction_ == Direction::kTo ? "in-" : "out-",
                                  refuses ? "" : kAudit,
                                  Hex(StableHash(text), kNameDigits)),
                      .direction = direction_,
                      .steps = std::move(steps)});
  }

  // Returns the kind of the peer with its set or list.
  [[nodiscard]] std::pair<Step::PeerIs, std::string> PeerOf(const Peer& peer) const {
    using PeerIs = Step::PeerIs;
    switch (peer.kind) {
      case Peer::Kind::kSelector:
        return {PeerIs::kMember, SetName(peer.selector)};
      case Peer::Kind::kSameNamespace:
        return {PeerIs::kMember, NamespaceSetName(nomad_namespace_)};
      case Peer::Kind::kAddresses:
        return {PeerIs::kAddress, lists_.at(peer.addresses)};
      case Peer::Kind::kOutside:
        return {PeerIs::kOutside, ""};
      case Peer::Kind::kNode:
        return {PeerIs::kNode, ""};
      case Peer::Kind::kAny:
        break;
    }
    return {PeerIs::kAnyone, ""};
  }

  // Adds `step` for each of the entry's peers with each of its ports.
  void AddEntry(std::vector<Step>& steps, const Entry& entry, Step step) const {
    for (const Peer& peer : entry.peers) {
      if (peer.kind == Peer::Kind::kNode && direction_ == Direction::kTo) {
        continue;  // what the node sends passes no in-chain
      }
      std::tie(step.peer, step.peers) = PeerOf(peer);
      step.ports.reset();
      if (entry.ports.empty()) {
        steps.push_back(step);
      }
      for (const Ports& ports : entry.ports) {
        step.ports = ports;
        steps.push_back(step);
      }
    }
  }

  void AddDenies(std::vector<Step>& steps, const Policy& policy) const {
    const Step::Outcome refusal = policy.drops ? Step::Outcome::kDrop : Step::Outcome::kReject;
    for (std::size_t i = 0; i < policy.deny.size(); ++i) {
      const auto [counter, rule] = DenyOf(policy, i);
      AddEntry(steps,
               policy.deny[i],
               {.counter = counter,
                .outcome = policy.is_audited ? Step::Outcome::kWouldRefuse : refusal,
                .comment = rule});
    }
  }

  // Adds steps that send what closed policies allow to the chain `next`, if there is one, and count
  // the rest. In a trial only audited policies count: enforced policies count where they decide.
  void AddClosed(std::vector<Step>& steps,
                 const PolicyList& closed,
                 const std::string& next,
                 Stage stage) const {
    const auto is_counted = [&](const Policy* policy) {
      return stage == Stage::kEnforced || policy->is_audited;
    };
    for (const Policy* const policy : closed) {
      for (std::size_t i = 0; i < policy->allow.size(); ++i) {
        const auto [counter, rule] = AllowOf(*policy, i);
        AddEntry(steps,
                 policy->allow[i],
                 {.counter = is_counted(policy) ? counter : "",
                  .outcome = next.empty() ? Step::Outcome::kReturn : Step::Outcome::kGoto,
                  .next = next,
                  .comment = rule});
      }
    }
    for (const Policy* const policy : closed) {
      if (is_counted(policy)) {
        const auto [counter, rule] = DefaultOf(*policy);
        steps.push_back({.counter = counter, .outcome = Step::Outcome::kContinue, .comment = rule});
      }
    }
    if (stage == Stage::kTrial) {
      // Noted once, even if several audited policies would refuse it.
      steps.back().outcome = Step::Outcome::kWouldRefuse;
    }
  }

  static void AddRefusal(std::vector<Step>& steps, const PolicyList& closed) {
    const bool all_drop = std::ranges::all_of(closed, &Policy::drops);
    steps.push_back({.outcome = all_drop ? Step::Outcome::kDrop : Step::Outcome::kReject,
                     .comment = CutUtf8(Joined(closed, ", ", &Policy::name), kMaxCommentBytes)});
  }

  Direction direction_;
  std::string_view nomad_namespace_;
  const ListNames& lists_;
};

}  // namespace

bool Refuses(std::string_view chain) {
  return chain.find(kAudit) == chain.npos;
}

bool Judgement::MayRefuse() const {
  return ClosesIn() || (out && Refuses(*out));
}

bool Judgement::ClosesIn() const {
  return in && Refuses(*in);
}

Program::Program(const Policies& policies) : Program(Write(policies)) {}

Program::Program(std::string text) : text_(std::move(text)) {
  std::string_view rest = text_;
  index_ = ReadIndex(TakeUntil('\n', rest));
  const auto lines = static_cast<std::size_t>(std::ranges::count(rest, '\n'));
  if (lines != index_.selectors.size() + 1 || !rest.ends_with('\n')) {
    throw Error(Code::kDecode, "the compiled policies are cut off");
  }
  // Without the lists: their names in the policies have hashes of their prefixes.
  const std::string_view judged(text_.data(), text_.rfind('\n', text_.size() - 2));
  revision_ = empty() ? "" : Hex(StableHash(judged), kNameDigits);
}

const Judgement& Program::JudgementOf(const cni::Workload& workload) const {
  return KindOf(workload).judgement;
}

const std::vector<Chain>& Program::ChainsOf(const cni::Workload& workload) const {
  return KindOf(workload).chains;
}

const Program::Kind& Program::KindOf(const cni::Workload& workload) const {
  const auto found = kinds_.find(workload);
  return found != kinds_.end() ? found->second
                               : kinds_.emplace(workload, MakeKind(workload)).first->second;
}

std::vector<CompiledPolicy> Program::Read(const cni::Workload* workload) const {
  std::vector<CompiledPolicy> read;
  std::string_view rest = text_;
  static_cast<void>(TakeUntil('\n', rest));  // the index
  for (const Selector& selector : index_.selectors) {
    const std::string_view line = TakeUntil('\n', rest);
    if (workload == nullptr || Selects(selector, *workload)) {
      read.push_back(ReadPolicy(line));
      read.back().policy.selector = selector;
    }
  }
  return read;
}

Program::Kind Program::MakeKind(const cni::Workload& workload) const {
  Kind kind;
  if (workload.nomad_namespace.empty()) {
    return kind;
  }
  ListNames lists;
  for (CompiledPolicy& compiled : Read(&workload)) {
    kind.policies.push_back(std::move(compiled.policy));
    lists.merge(compiled.lists);
  }
  std::set<std::string> sets;
  for (const Selector& peer : index_.peers) {
    if (Selects(peer, workload)) {
      sets.insert(SetName(peer));
    }
  }
  if (index_.has_same_namespace) {
    sets.insert(NamespaceSetName(workload.nomad_namespace));
  }
  kind.judgement.sets.assign(sets.begin(), sets.end());
  for (const auto& [direction, entrance] : {std::pair(Direction::kTo, &kind.judgement.in),
                                            std::pair(Direction::kFrom, &kind.judgement.out)}) {
    std::vector<Chain> chains =
        Maker(direction, workload.nomad_namespace, lists).Make(kind.policies);
    if (!chains.empty()) {
      *entrance = chains.back().name;
    }
    Append(kind.chains, std::move(chains));
  }
  return kind;
}

std::vector<Policy> Program::PoliciesAbout(Direction direction,
                                           const cni::Workload& workload) const {
  const std::vector<Policy>& selected = KindOf(workload).policies;
  const PolicyList enforced = Consider(selected, direction, false);
  const PolicyList all = Consider(selected, direction, true);
  std::vector<Policy> counting;
  for (const Policy& policy : selected) {
    if (Contains(policy.is_audited ? all : enforced, &policy)) {
      counting.push_back(policy);
    }
  }
  return counting;
}

const Lists& Program::Lists() const {
  if (!lists_) {
    lists_ = ReadLists(std::string_view(text_).substr(text_.rfind('\n', text_.size() - 2) + 1));
  }
  return *lists_;
}

std::vector<std::string> RulesOf(const Policy& policy) {
  std::vector<std::string> rules;
  for (const Entry& entry : policy.allow) {
    rules.push_back(InWords("allow", policy.direction, entry));
  }
  for (const Entry& entry : policy.deny) {
    rules.push_back(InWords("refuse", policy.direction, entry));
  }
  return rules;
}

std::map<std::string, CounterOf> Program::Counters() const {
  using What = CounterOf::What;
  std::map<std::string, CounterOf> counters;
  for (const CompiledPolicy& compiled : Read(nullptr)) {
    const Policy& policy = compiled.policy;
    const auto add = [&](const Counted& counted, What what, std::string words) {
      counters[counted.counter] = {
          policy.name, counted.rule, what, policy.is_audited, std::move(words)};
    };
    const What refused = policy.is_audited ? What::kWouldBeRefused : What::kRefused;
    for (std::size_t i = 0; i < policy.allow.size(); ++i) {
      add(AllowOf(policy, i), What::kAllowed, InWords("allow", policy.direction, policy.allow[i]));
    }
    for (std::size_t i = 0; i < policy.deny.size(); ++i) {
      add(DenyOf(policy, i), refused, InWords("refuse", policy.direction, policy.deny[i]));
    }
    if (policy.is_closed) {
      add(DefaultOf(policy), refused, "refuse what is left");
    }
  }
  return counters;
}

std::map<std::string, std::string> Program::SetTexts(
    const std::set<std::string>& namespaces) const {
  std::map<std::string, std::string> texts;
  for (const Selector& peer : index_.peers) {
    texts[SetName(peer)] = policy::Text(peer);
  }
  if (index_.has_same_namespace) {
    for (const std::string& nomad_namespace : namespaces) {
      texts[NamespaceSetName(nomad_namespace)] = Cat("same-namespace ", nomad_namespace);
    }
  }
  return texts;
}

}  // namespace nomad_bridge::policy
