// Files to policies: which keys there are, and what their values may be.
//
// Errors  kInvalidConfig, at the value's place. Nothing but the texts is looked at.
#pragma once

#include <string>
#include <vector>

#include "plugin/policy/document.h"
#include "plugin/policy/policy.h"

namespace nomad_bridge::policy {

// All of them together: one may name the addresses of another.
[[nodiscard]] Policies ParsePolicies(const std::vector<SourceText>& sources,
                                     std::vector<std::string>& remarks);

}  // namespace nomad_bridge::policy
