// What the kernel makes of an allocation's address: the elements of policies, which decide,
// whatever records, labels and files say.
//
// Costs   One dump of each set of policies.
// Errors  kKernel.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.h"
#include "plugin/policy/judge.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

class InForce {
 public:
  explicit InForce(state::Host& host);

  // Returns nothing in force for an address without elements: it counts as outside.
  [[nodiscard]] policy::InForce Of(const Ip& address) const;
  // Returns what is in force for the attachment, as for its first address that has elements.
  [[nodiscard]] policy::InForce OfAny(const std::vector<Ip>& addresses) const;
  // Returns the addresses of which an element belongs to `owner`, the name of a host veth.
  [[nodiscard]] std::vector<Ip> AddressesOf(std::string_view owner) const;

 private:
  struct OfAddress {
    policy::InForce in_force;
    std::string owner;
  };

  std::map<Ip, OfAddress> addresses_;
};

// Returns what `program` puts in force for `record`.
[[nodiscard]] policy::InForce InForceBy(const policy::Program& program,
                                        const state::Record& record);

}  // namespace nomad_bridge::rules
