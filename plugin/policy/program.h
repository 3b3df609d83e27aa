// Policies in the form that the kernel uses: for each kind of allocation, the chains that a new
// connection passes, and the sets that the allocation is a member of. Plain values: rules/ turns
// them into nf_tables rules, and `policy test` walks them as the kernel does.
//
// Counts  A connection is counted by the first allow that matches it, and by each closed policy
//         that refuses it.
// Node    The node always reaches allocations: in-chains judge what others send, so an allow from
//         `node` adds no step there.
// Names   Names of sets and chains are hashes of their content. Unchanged content keeps its name,
//         and changed content gets another name, so no chain changes while a packet passes it. A
//         set: "3a1f0c92...", of which rules/ makes "sel4-3a1f0c92..." and "sel6-3a1f0c92...".
//         Chains: "in-9b21...", "out-1c...", "in-audit-9b21..." if it only counts. Counters:
//         "api-0-5d2e", beginning with the policy's name, so that an unchanged rule goes on
//         counting.
// Errors  kDecode for a text that Text() has not returned.
// Source  docs/policy.md
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.h"
#include "plugin/cni/labels.h"
#include "plugin/policy/policy.h"
#include "plugin/policy/program_json.h"

namespace nomad_bridge::policy {

// One rule of a chain. The peer is the end that opened the connection in an in-chain, and its
// destination in an out-chain. All members that are set have to match.
struct Step {
  enum class PeerIs {
    kAnyone,
    kMember,   // an address in the set `peers` of allocations
    kAddress,  // an address in the list `peers`
    kOutside,  // no allocation of ours, nor the node itself
    kNode,     // an address of the node itself
  };
  enum class Outcome {
    kContinue,     // only counts; goes on
    kWouldRefuse,  // notes a flow that audited policies would refuse; goes on
    kReturn,       // ends this chain, and lets pass
    kGoto,         // goes on in chain `next`, which counts what audited policies would refuse
    kReject,
    kDrop,
  };

  PeerIs peer = PeerIs::kAnyone;
  std::string peers;
  std::optional<Ports> ports;
  std::string counter;  // empty: this step does not count
  Outcome outcome = Outcome::kReturn;
  std::string next;
  std::string comment;  // "api#0": the policy and its entry; "api": the policy's default

  auto operator<=>(const Step&) const = default;
};

struct Chain {
  std::string name;
  Direction direction = Direction::kTo;  // kTo: an in-chain
  std::vector<Step> steps;               // a connection that reaches the end passes

  auto operator<=>(const Chain&) const = default;
};

// Returns whether the chain of that name refuses anything, and does not only count.
[[nodiscard]] bool Refuses(std::string_view chain);

// The sets and chains of one kind of allocation.
struct Judgement {
  std::vector<std::string> sets;   // that its addresses are members of
  std::optional<std::string> in;   // chain for what reaches it; nullopt: nothing is judged
  std::optional<std::string> out;  // chain for what it sends; nullopt: nothing is judged

  [[nodiscard]] bool IsAny() const { return in || out; }
  // Returns whether the policies may refuse anything; whether they may refuse what reaches it.
  // Audited policies refuse nothing.
  [[nodiscard]] bool MayRefuse() const;
  [[nodiscard]] bool ClosesIn() const;
  auto operator<=>(const Judgement&) const = default;
};

// What a counter is for.
struct CounterOf {
  enum class What { kAllowed, kRefused, kWouldBeRefused };

  std::string policy;
  std::string rule;  // "api#0"; "api" for the policy's default
  What what = What::kAllowed;
  bool is_audited = false;  // the policy is audited
  std::string text;         // "allow from same-namespace", "refuse what is left"
};

// Returns the policy's rules for people: "allow from same-namespace", "refuse to metadata".
[[nodiscard]] std::vector<std::string> RulesOf(const Policy& policy);

// Makes each kind and list when it is first needed, and keeps it: an ADD needs its kind several
// times.
class Program {
 public:
  Program() : Program(Policies()) {}
  explicit Program(const Policies& policies);
  // Reads what Text() returns.
  explicit Program(std::string text);

  // Returns whether there are no policies.
  [[nodiscard]] bool empty() const { return index_.selectors.empty(); }
  // Returns whether any policy with `to` refuses what it does not allow.
  [[nodiscard]] bool ClosesAny() const { return index_.closes_any; }
  // Returns a hash of the policies; empty without policies.
  [[nodiscard]] const std::string& Revision() const { return revision_; }

  [[nodiscard]] const Judgement& JudgementOf(const cni::Workload& workload) const;
  // Returns the chains that the judgement of `workload` names, after the chains that they go to.
  [[nodiscard]] const std::vector<Chain>& ChainsOf(const cni::Workload& workload) const;

  // Returns the policies that apply to what reaches `workload`, or to what it reaches. Leaves out
  // policies that another policy's `only` sets aside.
  [[nodiscard]] std::vector<Policy> PoliciesAbout(Direction direction,
                                                  const cni::Workload& workload) const;

  // Returns the address lists that policies name, under the names that steps use: "office-1c0e..."
  // with a hash of the content, or only a hash for a prefix that a peer names.
  [[nodiscard]] const policy::Lists& Lists() const;
  // Returns all counters by name.
  [[nodiscard]] std::map<std::string, CounterOf> Counters() const;
  // Returns for each set, by name, what it selects, for people: "namespace=prod job=lb". If some
  // policy has the peer same-namespace, includes the set of each of `namespaces`.
  [[nodiscard]] std::map<std::string, std::string> SetTexts(
      const std::set<std::string>& namespaces = {}) const;

  // Returns the whole program in the form of program_json.h.
  [[nodiscard]] const std::string& Text() const { return text_; }

 private:
  struct Kind {
    Judgement judgement;
    std::vector<Chain> chains;
    std::vector<Policy> policies;  // that select this kind
  };

  [[nodiscard]] const Kind& KindOf(const cni::Workload& workload) const;
  [[nodiscard]] Kind MakeKind(const cni::Workload& workload) const;
  // Reads the policies that select `workload`; all without one.
  [[nodiscard]] std::vector<CompiledPolicy> Read(const cni::Workload* workload) const;

  std::string text_;
  Index index_;
  std::string revision_;
  mutable std::map<cni::Workload, Kind> kinds_;  // made so far
  mutable std::optional<policy::Lists> lists_;
};

}  // namespace nomad_bridge::policy
