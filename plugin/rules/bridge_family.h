// Handles the config keys that need the bridge family of nf_tables, if the kernel lacks it. Drops
// such a key if it is only a default (sourceCheck), and refuses it if the config requests it
// (sourceCheck, ingressPolicy isolated).
//
// Errors  kUnsupportedField if the config itself requests such a key; kKernel.
#pragma once

#include "plugin/config/config.h"
#include "plugin/state/host.h"

namespace nomad_bridge::rules {

// Returns `config` without the defaults that this kernel cannot provide. Names these on stderr.
[[nodiscard]] config::Config WithoutUnsupportedDefaults(config::Config config, state::Host& host);

}  // namespace nomad_bridge::rules
