// policy apply -cut: ends connections that the policies in force refuse. Without it, connections
// that began before `apply` go on.
//
// Shapes  Set cut of table inet nomad-bridge has conntrack's ids of ended connections
//         (rules/policy_admission.h). The rules refuse further packets of these, in both
//         directions.
// Limits  Ids have 32 bits. A connection that nobody ended might have the same id, with odds of one
//         in four thousand millions.
// Errors  kKernel; kTryAgain if more connections are refused than the set holds: then it ends none.
#pragma once

#include <cstddef>

#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

enum class More { kNone, kAll };

// Ends those connections from and to live attachments that the policies in force refuse; with
// kNone, ends no more connections. A connection that was ended earlier goes on if the policies
// allow it now. Returns how many were ended.
std::size_t CutRefused(state::Host& host, More more);

}  // namespace nomad_bridge::attachment
