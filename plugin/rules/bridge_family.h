// What of a config needs the bridge family of nf_tables: sourceCheck, and ingressPolicy isolated.
//
// Errors  kUnsupportedField if the config asks for it and the kernel has no such family; kKernel.
#pragma once

#include "plugin/config/config.h"
#include "plugin/state/host.h"

namespace nomad_bridge::rules {

// `config` without a default that this kernel cannot have, with a line on stderr.
[[nodiscard]] config::Config WithPossibleChecks(config::Config config, state::Host& host);

}  // namespace nomad_bridge::rules
