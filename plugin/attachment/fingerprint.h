// What a reconcile of all attachments looks at besides the rules, in short: as long as it is the same as
// when nothing was found wrong, nothing needs to be looked at again.
//
// Holds   links of ours and bridges with their state, ports' flags and addresses; the sysctls and the tc
//         filter that an ADD sets on a bridge; when records and leases were last added or removed
// Costs   one dump of the links, some questions per bridge: the same with one attachment and with a
//         thousand, but for the length of the dump
// Errors  kKernel
#pragma once

#include <string>

#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

// Another one after each change, also by an ADD or a DEL of ours. `checkpoint` knows where leases are.
[[nodiscard]] std::string Fingerprint(state::Host& host, const state::Checkpoint& checkpoint);

}  // namespace nomad_bridge::attachment
