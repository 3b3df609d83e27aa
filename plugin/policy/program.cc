#include "plugin/policy/program.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/policy/chains.h"
#include "plugin/policy/program_text.h"

namespace nomad_bridge::policy {
namespace {

// By direction: the chain that a connection comes to is the last one.
struct BothChains {
  std::vector<Chain> in;
  std::vector<Chain> out;
};

BothChains ChainsFor(const Selected& selected, const cni::Workload& workload) {
  const auto make = [&](Direction direction) {
    return MakeChains(direction, selected.policies, workload.nomad_namespace, selected.lists);
  };
  return {.in = make(Direction::kTo), .out = make(Direction::kFrom)};
}

}  // namespace

Program::Program(const Policies& policies) : text_(Write(policies)) {}

bool Program::empty() const {
  return Split(text_).judged.empty();
}

std::string Program::Revision() const {
  return empty() ? "" : std::string(Split(text_).hash);
}

const Judgement& Program::JudgementOf(const cni::Workload& workload) const {
  const auto found = judgements_.find(workload);
  return found != judgements_.end() ? found->second
                                    : judgements_.emplace(workload, Judge(workload)).first->second;
}

Judgement Program::Judge(const cni::Workload& workload) const {
  if (workload.nomad_namespace.empty()) {
    return {};
  }
  const Selected selected = Select(Split(text_).judged, &workload);
  Judgement judgement;
  for (const Selector& peer : selected.peers) {
    judgement.sets.push_back(SetName(peer));
  }
  if (selected.has_same_namespace) {
    judgement.sets.push_back(NamespaceSetName(workload.nomad_namespace));
  }
  std::ranges::sort(judgement.sets);
  const auto entrance = [](const std::vector<Chain>& chains) {
    return chains.empty() ? std::nullopt : std::optional(chains.back().name);
  };
  const BothChains chains = ChainsFor(selected, workload);
  judgement.in = entrance(chains.in);
  judgement.out = entrance(chains.out);
  return judgement;
}

std::vector<Chain> Program::ChainsOf(const cni::Workload& workload) const {
  BothChains chains = ChainsFor(Select(Split(text_).judged, &workload), workload);
  Append(chains.in, std::move(chains.out));
  return std::move(chains.in);
}

std::map<std::string, std::vector<Cidr>> Program::Lists() const {
  return ReadLists(Split(text_).lists);
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

Policies Program::ToPolicies() const {
  Selected all = Select(Split(text_).judged, nullptr);
  Policies policies;
  policies.policies = std::move(all.policies);
  const std::map<std::string, std::vector<Cidr>> lists = Lists();
  for (const auto& [name, in_steps] : all.lists) {
    policies.addresses.emplace(name, lists.at(std::string(in_steps)));
  }
  return policies;
}

Program Program::Parse(std::string text) {
  const Parts parts = Split(text);
  if (parts.hash != HashText(parts.judged)) {
    throw Error(Code::kDecode,
                "the compiled policies are damaged",
                "they are not what the first line has the hash of");
  }
  Program program;
  program.text_ = std::move(text);
  return program;
}

}  // namespace nomad_bridge::policy
