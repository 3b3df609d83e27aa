#include "plugin/policy/program.h"

#include <algorithm>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "plugin/policy/chains.h"
#include "plugin/policy/program_text.h"

namespace nomad_bridge::policy {
Program::Program(const Policies& policies) : text_(Write(policies)) {}

bool Program::empty() const {
  return Split(text_).judged.empty();
}

std::string Program::Revision() const {
  return empty() ? "" : std::string(Split(text_).hash);
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

Program::Kind Program::MakeKind(const cni::Workload& workload) const {
  Kind kind;
  if (workload.nomad_namespace.empty()) {
    return kind;
  }
  Selected selected = Select(Split(text_).judged, &workload);
  for (const Selector& peer : selected.peers) {
    kind.judgement.sets.push_back(SetName(peer));
  }
  if (selected.has_same_namespace) {
    kind.judgement.sets.push_back(NamespaceSetName(workload.nomad_namespace));
  }
  std::ranges::sort(kind.judgement.sets);
  for (const auto& [direction, entrance] : {std::pair(Direction::kTo, &kind.judgement.in),
                                            std::pair(Direction::kFrom, &kind.judgement.out)}) {
    std::vector<Chain> chains =
        MakeChains(direction, selected.policies, workload.nomad_namespace, selected.lists);
    if (!chains.empty()) {
      *entrance = chains.back().name;
    }
    Append(kind.chains, std::move(chains));
  }
  kind.policies = std::move(selected.policies);
  return kind;
}

std::vector<Policy> Program::PoliciesAbout(Direction direction,
                                           const cni::Workload& workload) const {
  return ThoseThatCount(KindOf(workload).policies, direction);
}

const std::map<std::string, std::vector<Cidr>>& Program::Lists() const {
  if (!lists_) {
    lists_ = ReadLists(Split(text_).lists);
  }
  return *lists_;
}

std::map<std::string, CounterOf> Program::Counters() const {
  return CountersOf(Select(Split(text_).judged, nullptr).policies);
}

std::map<std::string, std::string> Program::SetTexts(
    const std::set<std::string>& namespaces) const {
  const Selected all = Select(Split(text_).judged, nullptr);
  std::map<std::string, std::string> texts;
  for (const Selector& peer : all.peers) {
    texts[SetName(peer)] = policy::Text(peer);
  }
  if (all.has_same_namespace) {
    for (const std::string& nomad_namespace : namespaces) {
      texts[NamespaceSetName(nomad_namespace)] = Cat("same-namespace ", nomad_namespace);
    }
  }
  return texts;
}

Program Program::Parse(std::string text) {
  RequireWhole(text);
  Program program;
  program.text_ = std::move(text);
  return program;
}

}  // namespace nomad_bridge::policy
