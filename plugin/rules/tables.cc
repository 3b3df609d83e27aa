#include "plugin/rules/tables.h"

#include <algorithm>

#include "firewall/port_filter.h"
#include "firewall/table.h"
#include "portmap/rules.h"

namespace nomad_bridge::rules {
namespace {

firewall::Contributors AllContributors() {
  return {&firewall::kForwarding, &portmap::kPublishedPorts, &firewall::kPortFilter};
}

}  // namespace

firewall::Tables NodeTables(int accept_mark_bit, bool has_port_filter) {
  firewall::Contributors contributors = AllContributors();
  if (!has_port_filter) {
    std::erase(contributors, &firewall::kPortFilter);
  }
  return firewall::Assemble(contributors, accept_mark_bit);
}

const firewall::OwnSet* FindSet(const nft::Element& element) {
  static const std::vector<firewall::OwnSet> kSets = firewall::SetsOf(AllContributors());
  const auto found = std::ranges::find_if(kSets, [&](const firewall::OwnSet& own) {
    return own.table == element.family && own.set.name == element.set;
  });
  return found == kSets.end() ? nullptr : &*found;
}

}  // namespace nomad_bridge::rules
