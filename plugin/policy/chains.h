// What a workload's policies become: the steps that a new connection passes.
//
// Enforced policies alone decide; audited ones are tried behind them, on what those let pass, by a
// chain that only counts. In both, `only` sets policies without it aside.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/policy/policy.h"
#include "plugin/policy/program.h"

namespace nomad_bridge::policy {

// By the name of Policies::addresses, that which steps have for it.
using ListNames = std::map<std::string_view, std::string_view>;

// Those of `selected` that are about one direction, and that no `only` sets aside.
[[nodiscard]] std::vector<Policy> ThoseThatCount(const std::vector<Policy>& selected,
                                                 Direction direction);

[[nodiscard]] std::string SetName(const Selector& selector);
// Of what is in exactly this namespace, whatever it is called: it is no glob.
[[nodiscard]] std::string NamespaceSetName(std::string_view nomad_namespace);

// Those that an allocation of `nomad_namespace` has for one direction, of policies that select it:
// the entrance last; none if nothing is judged.
[[nodiscard]] std::vector<Chain> MakeChains(Direction direction,
                                            const std::vector<Policy>& selected,
                                            std::string_view nomad_namespace,
                                            const ListNames& lists);

// All that chains of these policies may have, by name.
[[nodiscard]] std::map<std::string, CounterOf> CountersOf(const std::vector<Policy>& policies);

}  // namespace nomad_bridge::policy
