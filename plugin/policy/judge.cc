#include "plugin/policy/judge.h"

#include <algorithm>

#include "base/list.h"

namespace nomad_bridge::policy {
namespace {

using Outcome = Step::Outcome;

// Chains as the kernel has them, for one connection.
class Walk {
 public:
  Walk(const Program& program, const Connection& connection)
      : program_(program), lists_(program.Lists()), connection_(connection) {}

  // Through the chains of `judged` behind `entrance`; `peer` is its other end.
  void Pass(const cni::Workload& judged,
            const std::optional<std::string> Judgement::*entrance,
            const End& peer) {
    const std::optional<std::string>& first = program_.JudgementOf(judged).*entrance;
    sets_ = peer.workload ? program_.JudgementOf(*peer.workload).sets : std::vector<std::string>();
    peer_ = &peer;
    if (first) {
      answer_.by.clear();
      Follow(program_.ChainsOf(judged), *first);
    }
  }

  [[nodiscard]] const Answer& answer() const { return answer_; }

 private:
  void Follow(const std::vector<Chain>& chains, const std::string& name) {
    const auto chain = std::ranges::find(chains, name, &Chain::name);
    for (const Step& step : chain->steps) {
      if (!Matches(step)) {
        continue;
      }
      if (step.outcome == Outcome::kContinue) {
        // Behind it either a refusal follows, or it is one of an audited policy.
        if (answer_.would_be_refused_by.empty()) {
          answer_.would_be_refused_by = step.comment;
        }
        continue;
      }
      if (answer_.by.empty()) {
        answer_.by = step.comment;
      }
      if (step.outcome == Outcome::kGoto) {
        Follow(chains, step.next);
      } else if (step.outcome != Outcome::kReturn) {
        answer_.is_allowed = false;
        answer_.would_be_refused_by.clear();
      }
      return;
    }
  }

  [[nodiscard]] bool Matches(const Step& step) const {
    return MatchesPeer(step) && (!step.ports || (step.ports->protocol == connection_.protocol &&
                                                 step.ports->first <= connection_.port &&
                                                 connection_.port <= step.ports->last));
  }

  [[nodiscard]] bool MatchesPeer(const Step& step) const {
    switch (step.peer) {
      case Step::PeerIs::kAnyone:
        return true;
      case Step::PeerIs::kMember:
        return Contains(sets_, step.peers);
      case Step::PeerIs::kAddress:
        return peer_->address && std::ranges::any_of(lists_.at(step.peers), [&](const Cidr& each) {
                 return each.Contains(*peer_->address);
               });
      case Step::PeerIs::kOutside:
        return !peer_->workload && !peer_->is_node;
      case Step::PeerIs::kNode:
        return peer_->is_node;
    }
    return false;
  }

  const Program& program_;
  const std::map<std::string, std::vector<Cidr>>& lists_;
  const Connection& connection_;
  std::vector<std::string> sets_;  // that the peer is in
  const End* peer_ = nullptr;
  Answer answer_;
};

}  // namespace

Answer Judge(const Program& program, const Connection& connection) {
  Walk walk(program, connection);
  if (connection.from.workload) {
    walk.Pass(*connection.from.workload, &Judgement::out, connection.to);
  }
  if (walk.answer().is_allowed && connection.to.workload && !connection.from.is_node) {
    walk.Pass(*connection.to.workload, &Judgement::in, connection.from);
  }
  return walk.answer();
}

}  // namespace nomad_bridge::policy
