// Checks what the policies in force decide about a connection.
//
// Errors   kKernel
#pragma once

#include "plugin/causes/cause.h"
#include "plugin/causes/connection.h"

namespace nomad_bridge::causes {

// Returns the policy that refuses the connection; empty if none does.
[[nodiscard]] Causes FindInPolicies(state::Host& host, const Connection& connection);

}  // namespace nomad_bridge::causes
