// Records of earlier releases in the shape of today's.
//
// Shape   What commit 9d1314b wrote: one flat object, with other names, "parts" an array of those that
//         are live.
// Errors  std::exception of nlohmann::json.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace nomad_bridge::state {

// `record`, unless it is of an earlier release.
[[nodiscard]] nlohmann::json Translate(nlohmann::json record);

}  // namespace nomad_bridge::state
