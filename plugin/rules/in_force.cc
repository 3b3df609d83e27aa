#include "plugin/rules/in_force.h"

#include <algorithm>

#include "base/list.h"
#include "firewall/table.h"
#include "plugin/rules/policy_admission.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::rules {
namespace {

using firewall::SetName;

// Returns whether `element` belongs to the set called `noun`, or to one that is made for policies
// and whose name begins with `noun`.
bool IsIn(const nft::Element& element, std::string_view noun, Family family) {
  const std::string_view set = element.set;
  return set.substr(0, set.find('-')) == SetName(noun, family);
}

void Note(const nft::Element& element, Family family, policy::InForce& in_force) {
  if (IsIn(element, kHere, family)) {
    in_force.is_here = true;
  } else if (IsIn(element, kSelected, family)) {
    in_force.sets.push_back(element.set.substr(element.set.find('-') + 1));
  } else if (element.verdict) {
    (IsIn(element, kPolicyIn, family) ? in_force.in : in_force.out) = element.verdict->chain;
  }
}

}  // namespace

InForce::InForce(state::Host& host) {
  for (const nft::Set& set : host.nft.Sets(firewall::TableId())) {
    for (const Family family : firewall::kFamilies) {
      const auto is_in = [&](std::string_view noun) {
        return IsIn({.set = set.name, .key = {}}, noun, family);
      };
      if (!is_in(kHere) && !is_in(kSelected) && !is_in(kPolicyIn) && !is_in(kPolicyOut)) {
        continue;
      }
      for (const nft::Element& element : host.nft.Elements(firewall::TableId(), set.name)) {
        OfAddress& address = addresses_[Ip(element.key)];
        address.owner = element.owner();
        Note(element, family, address.in_force);
      }
    }
  }
  for (auto& each : addresses_) {
    std::ranges::sort(each.second.in_force.sets);
  }
}

policy::InForce InForce::Of(const Ip& address) const {
  const auto found = addresses_.find(address);
  return found != addresses_.end() ? found->second.in_force : policy::InForce();
}

policy::InForce InForce::OfAny(const std::vector<Ip>& addresses) const {
  const auto found = std::ranges::find_if(
      addresses, [&](const Ip& address) { return addresses_.contains(address); });
  return found != addresses.end() ? Of(*found) : policy::InForce();
}

std::vector<Ip> InForce::AddressesOf(std::string_view owner) const {
  std::vector<Ip> addresses;
  for (const auto& [address, known] : addresses_) {
    if (known.owner == owner) {
      addresses.push_back(address);
    }
  }
  return addresses;
}

policy::InForce InForceBy(const policy::Program& program, const state::Record& record) {
  return {{JudgementOf(record, program)}, !program.empty() && IsJudged(record)};
}

}  // namespace nomad_bridge::rules
