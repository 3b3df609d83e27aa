#include "plugin/policy/judge.h"

#include <algorithm>

#include "base/list.h"

namespace nomad_bridge::policy {
namespace {

using Outcome = Step::Outcome;

// Walks the chains as they are in the kernel, for one connection.
class Walk {
 public:
  Walk(const Program& program, const Connection& connection)
      : program_(program), lists_(program.Lists()), connection_(connection) {}

  // Walks the chains of `judged` that begin with `entrance`; `peer` is the other end.
  [[nodiscard]] Opinion Pass(const End& judged,
                             const std::optional<std::string> Judgement::*entrance,
                             const End& peer) {
    const std::optional<std::string> first = JudgementOf(judged).*entrance;
    sets_ = JudgementOf(peer).sets;
    peer_ = &peer;
    Opinion opinion;
    if (first) {
      Follow(program_.ChainsOf(judged.workload.value_or(cni::Workload())), *first, opinion);
    }
    return opinion;
  }

  [[nodiscard]] bool is_refused() const { return is_refused_; }
  [[nodiscard]] bool needs_address() const { return needs_address_; }
  [[nodiscard]] const std::string& unknown_chain() const { return unknown_chain_; }

 private:
  [[nodiscard]] Judgement JudgementOf(const End& end) const {
    if (end.in_force) {
      return *end.in_force;
    }
    return end.workload ? program_.JudgementOf(*end.workload) : Judgement();
  }

  void Follow(const std::vector<Chain>& chains, const std::string& name, Opinion& opinion) {
    const auto chain = std::ranges::find(chains, name, &Chain::name);
    if (chain == chains.end()) {
      unknown_chain_ = name;
      return;
    }
    for (const Step& step : chain->steps) {
      if (!Matches(step)) {
        continue;
      }
      if (step.outcome == Outcome::kContinue || step.outcome == Outcome::kWouldRefuse) {
        // Either a refusal follows, or the step belongs to an audited policy.
        if (opinion.would_be_refused_by.empty()) {
          opinion.would_be_refused_by = step.comment;
        }
        continue;
      }
      if (opinion.by.empty()) {
        opinion.by = step.comment;
      }
      if (step.outcome == Outcome::kGoto) {
        Follow(chains, step.next, opinion);
      } else if (step.outcome != Outcome::kReturn) {
        is_refused_ = true;
        opinion.would_be_refused_by.clear();
      }
      return;
    }
  }

  [[nodiscard]] bool Matches(const Step& step) {
    return (!step.ports ||
            (step.ports->protocol == connection_.protocol &&
             step.ports->first <= connection_.port && connection_.port <= step.ports->last)) &&
           MatchesPeer(step);
  }

  [[nodiscard]] bool IsAllocation(const End& end) const {
    return end.in_force ? end.in_force->is_here : end.workload.has_value();
  }

  [[nodiscard]] bool MatchesPeer(const Step& step) {
    switch (step.peer) {
      case Step::PeerIs::kAnyone:
        return true;
      case Step::PeerIs::kMember:
        return Contains(sets_, step.peers);
      case Step::PeerIs::kAddress:
        needs_address_ = needs_address_ || (peer_->is_node && !peer_->address);
        return peer_->address && std::ranges::any_of(lists_.at(step.peers), [&](const Cidr& each) {
                 return each.Contains(*peer_->address);
               });
      case Step::PeerIs::kOutside:
        return !IsAllocation(*peer_) && !peer_->is_node;
      case Step::PeerIs::kNode:
        return peer_->is_node;
    }
    return false;
  }

  const Program& program_;
  const std::map<std::string, std::vector<Cidr>>& lists_;
  const Connection& connection_;
  std::vector<std::string> sets_;  // the sets that the peer is a member of
  const End* peer_ = nullptr;
  bool is_refused_ = false;
  bool needs_address_ = false;
  std::string unknown_chain_;
};

}  // namespace

Answer Judge(const Program& program, const Connection& connection) {
  const auto& [from, to, protocol, port] = connection;
  Walk walk(program, connection);
  Answer answer;
  answer.source = walk.Pass(from, &Judgement::out, to);
  if (!walk.is_refused() && !from.is_node) {
    answer.target = walk.Pass(to, &Judgement::in, from);
  }
  answer.is_allowed = !walk.is_refused();
  answer.unknown_chain = walk.unknown_chain();
  answer.needs_address = walk.needs_address();
  return answer;
}

}  // namespace nomad_bridge::policy
