// What keeps a published port from answering although its rules are in force: said on stderr, by name,
// when the port is published. No error: an address may come later.
//
// Cost    one question per host address.
// Errors  kKernel.
// Locks   none.
#pragma once

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

void WarnOfPorts(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::rules
