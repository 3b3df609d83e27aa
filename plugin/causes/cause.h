// Why a connection gets no answer, and what to do about it.
#pragma once

#include <string>
#include <vector>

#include "base/fix.h"

namespace nomad_bridge::causes {

struct Cause {
  std::string text;
  Fix fix;
  bool is_passing = false;   // it passes by itself
  bool is_meant = false;     // somebody's own rule or policy says so
  bool ends = true;          // the connection; false: what is wrong costs something else
  bool is_unprobed = false;  // behind where a probe ends: what that has found answered may be lost

  bool operator==(const Cause&) const = default;
};

using Causes = std::vector<Cause>;

// For a subnet that others use, too.
[[nodiscard]] inline Fix AnotherSubnet() {
  return Fix::Advice("another subnet in the conflist, then start its allocations anew");
}

}  // namespace nomad_bridge::causes
