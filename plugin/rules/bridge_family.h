// The config keys that need the bridge family of nf_tables: sourceCheck, and ingressPolicy
// isolated.
//
// Errors  kUnsupportedField if the config requests one of them and the kernel lacks the family;
//         kKernel.
#pragma once

#include "plugin/config/config.h"
#include "plugin/state/host.h"

namespace nomad_bridge::rules {

// Returns `config` without defaults that this kernel cannot provide, and names them on stderr.
[[nodiscard]] config::Config WithPossibleChecks(config::Config config, state::Host& host);

}  // namespace nomad_bridge::rules
