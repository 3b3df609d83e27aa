// Policies as the kernel judges by them: for each kind of allocation the chains that a new
// connection passes, and the sets that an allocation is a member of. Plain values: rules/ makes
// nf_tables' rules of them, and `policy test` walks them as the kernel does.
//
// Counts  A connection is counted by the first allow that matches it, and by each closed policy
//         that refuses it.
// Node    It always reaches allocations: in-chains are for what others send, so an allow from
//         `node` is no step there.
// Names   of sets and chains are hashes of what they stand for: what did not change keeps its name,
//         and another name is another thing, so nothing is ever changed under a packet.
//         A set: "3a1f0c92...", of which rules/ makes "sel4-3a1f0c92..." and "sel6-3a1f0c92...";
//         chains: "in-9b21...", "out-1c...", "in-audit-9b21..." if it only counts; counters:
//         "api-0-5d2e", the policy's name first, so that a rule that stays goes on counting.
// Errors  Parse: kDecode for a text that Text() has not written.
// Source  docs/policy.md
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ip.h"
#include "plugin/cni/labels.h"
#include "plugin/policy/policy.h"

namespace nomad_bridge::policy {

// One rule of a chain. Of the peer: who has opened the connection in an in-chain, who it leads to
// in an out-chain. All that is set has to match.
struct Step {
  enum class PeerIs {
    kAnyone,
    kMember,   // an address in the set `peers` of allocations
    kAddress,  // an address in the list `peers`
    kOutside,  // no allocation of ours, nor the node itself
    kNode,     // an address of the node itself
  };
  enum class Outcome {
    kContinue,     // counted only
    kWouldRefuse,  // noted as a flow that audited policies would refuse; goes on
    kReturn,       // let pass, as far as this chain goes
    kGoto,         // the chain `next` goes on: what audited policies would make of it
    kReject,
    kDrop,
  };

  PeerIs peer = PeerIs::kAnyone;
  std::string peers;
  std::optional<Ports> ports;
  std::string counter;  // empty: not counted here
  Outcome outcome = Outcome::kReturn;
  std::string next;
  std::string comment;  // "api#0": the policy, and which of its entries; "api": its default

  auto operator<=>(const Step&) const = default;
};

struct Chain {
  std::string name;
  std::vector<Step> steps;  // at its end: let pass

  auto operator<=>(const Chain&) const = default;
};

// What one kind of allocation has.
struct Judgement {
  std::vector<std::string> sets;   // that its addresses are in
  std::optional<std::string> in;   // the chain of what reaches it; nullopt: nothing is judged
  std::optional<std::string> out;  // the chain of what it sends

  // Whether any of that may be refused: what audited policies select is left as it is.
  [[nodiscard]] bool MayRefuse() const;
  auto operator<=>(const Judgement&) const = default;
};

// What a counter counts.
struct CounterOf {
  enum class What { kAllowed, kRefused, kWouldBeRefused };

  std::string policy;
  std::string rule;  // "api#0"; "api" for what its default refuses
  What what = What::kAllowed;
  bool is_audited = false;  // the policy
  std::string text;         // "allow from same-namespace", "refuse what is left"
};

// Is its text, and reads of that what it is asked for, each thing once: an ADD asks for one
// workload several times.
class Program {
 public:
  Program() : Program(Policies()) {}
  explicit Program(const Policies& policies);

  // Without policies.
  [[nodiscard]] bool empty() const;
  // A hash of all of it; empty without policies.
  [[nodiscard]] std::string Revision() const;

  [[nodiscard]] const Judgement& JudgementOf(const cni::Workload& workload) const;
  // Those that its judgement names, and those that they go to, the latter first.
  [[nodiscard]] const std::vector<Chain>& ChainsOf(const cni::Workload& workload) const;

  // Those that are about what reaches `workload`, or what it reaches, and count.
  [[nodiscard]] std::vector<Policy> PoliciesAbout(Direction direction,
                                                  const cni::Workload& workload) const;

  // The address lists that some policy names, by the name that steps have for them:
  // "office-1c0e..." with a hash of what is in it, a hash alone for a prefix that a peer names.
  [[nodiscard]] const std::map<std::string, std::vector<Cidr>>& Lists() const;
  // By name.
  [[nodiscard]] std::map<std::string, CounterOf> Counters() const;
  // "namespace=prod job=lb", for people: what a set of allocations is of. If some policy says
  // same-namespace, that set of each of `namespaces`, too.
  [[nodiscard]] std::map<std::string, std::string> SetTexts(
      const std::set<std::string>& namespaces = {}) const;

  // All of it as ADD reads it, and back.
  [[nodiscard]] const std::string& Text() const { return text_; }
  [[nodiscard]] static Program Parse(std::string text);

 private:
  struct Kind {
    Judgement judgement;
    std::vector<Chain> chains;
    std::vector<Policy> policies;  // that select it
  };

  [[nodiscard]] const Kind& KindOf(const cni::Workload& workload) const;
  [[nodiscard]] Kind MakeKind(const cni::Workload& workload) const;

  std::string text_;
  mutable std::map<cni::Workload, Kind> kinds_;  // that were asked for
  mutable std::optional<std::map<std::string, std::vector<Cidr>>> lists_;
};

}  // namespace nomad_bridge::policy
