#include "plugin/rules/tables.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "firewall/port_filter.h"
#include "firewall/table.h"
#include "plugin/rules/policy_admission.h"
#include "plugin/rules/policy_ports.h"
#include "portmap/rules.h"

namespace nomad_bridge::rules {
namespace {

// Rules that several contributors add to one chain, such as postrouting, come in this order.
firewall::Contributors AllContributors() {
  return {&firewall::kForwarding,
          &portmap::kPublishedPorts,
          &kPolicy,
          &firewall::kPortFilter,
          &kPolicyPorts};
}

constexpr std::array kShapes = {&kPolicySetShapes, &kPortSetShapes};

std::vector<firewall::OwnSet> AllSets() {
  firewall::Contributors contributors = AllContributors();
  contributors.insert(contributors.end(), kShapes.begin(), kShapes.end());
  return firewall::SetsOf(contributors);
}

}  // namespace

firewall::Tables NodeTables(int accept_mark_bit,
                            bool has_port_filter,
                            const NodePolicies& policies) {
  firewall::Contributors contributors = AllContributors();
  std::erase_if(contributors, [&](const firewall::Contributor* contributor) {
    const bool is_of_policies = contributor == &kPolicy || contributor == &kPolicyPorts;
    return (!has_port_filter && contributor->table == nft::TableFamily::kBridge) ||
           (policies.program.empty() && is_of_policies);
  });
  firewall::Tables tables = firewall::Assemble(contributors, accept_mark_bit);
  AddPolicies(policies.program, policies.kinds, tables);
  return tables;
}

const std::set<std::string>& PolicySets() {
  static const std::set<std::string> kNames = [] {
    std::set<std::string> names;
    for (const firewall::OwnSet& own : firewall::SetsOf({&kPolicy, &kPolicyPorts})) {
      names.insert(own.set.name);
    }
    return names;
  }();
  return kNames;
}

// Sets named "sel4-1f2e..." and "adr6-..." are made for policies. The part of the name before the
// hyphen selects the row.
const firewall::OwnSet* FindRow(const nft::Element& element) {
  static const std::vector<firewall::OwnSet> kSets = AllSets();
  const std::string_view name = std::string_view(element.set).substr(0, element.set.find('-'));
  const auto found = std::ranges::find_if(kSets, [&](const firewall::OwnSet& own) {
    return own.table == element.family && own.set.name == name;
  });
  return found == kSets.end() ? nullptr : &*found;
}

std::string_view KeyOfDrop(nft::TableFamily family, std::string_view chain) {
  for (const firewall::Contributor* const contributor : AllContributors()) {
    for (const firewall::DroppingChain& each : contributor->dropping) {
      if (contributor->table == family && each.name == chain) {
        return each.key;
      }
    }
  }
  return {};
}

bool IsOfOtherPolicies(const policy::Program& program,
                       const cni::Workload& workload,
                       const std::string& chain) {
  const auto has_it = [&](const nft::Table& table) { return table.FindChain(chain) != nullptr; };
  if (chain.empty() ||
      std::ranges::any_of(NodeTables(0, true, {.program = program, .kinds = {}}), has_it)) {
    return false;
  }
  return !has_it(ChainsOfKind(program, workload)) || program.JudgementOf(workload).out == chain;
}

}  // namespace nomad_bridge::rules
