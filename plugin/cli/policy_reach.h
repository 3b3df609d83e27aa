// Which policies are about an allocation, by their names, for people.
#pragma once

#include <string>

#include "plugin/cni/labels.h"
#include "plugin/policy/policy.h"

namespace nomad_bridge::cli {

// "namespaces, api (audit)"; "-" if none is about it.
struct Reach {
  std::string in;   // what reaches it
  std::string out;  // what it reaches
};

// Those of a directory; remarks are on stderr.
[[nodiscard]] policy::Policies ReadRemarking(const std::string& directory);

[[nodiscard]] Reach ReachOf(const policy::Policies& policies, const cni::Workload& workload);

}  // namespace nomad_bridge::cli
