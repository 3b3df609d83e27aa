// Why a connection gets no answer, and what to do about it.
#pragma once

#include <string>
#include <vector>

#include "base/fix.h"

namespace nomad_bridge::causes {

struct Cause {
  std::string text;
  Fix fix;
  bool is_passing = false;  // ends by itself
  // No fault: a policy, or a rule that is there on purpose, or a silent sandbox or virtual machine.
  bool is_meant = false;
  bool ends = true;  // ends the connection; false: the fault does harm elsewhere
  // The fault is beyond the end of the probe: it may end a connection whose probe was answered.
  bool is_unprobed = false;

  bool operator==(const Cause&) const = default;
};

using Causes = std::vector<Cause>;

// The fix if others use the subnet, too.
[[nodiscard]] inline Fix AnotherSubnet() {
  return Fix::Advice("another subnet in the conflist, then start its allocations anew");
}

}  // namespace nomad_bridge::causes
