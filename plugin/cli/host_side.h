// Compares the host's side of an attachment with its record.
//
// Changes  nothing. Skips an attachment whose lock is taken: a command is working on it.
// Errors   kKernel
#pragma once

#include <functional>

#include "plugin/causes/cause.h"
#include "plugin/cli/inventory.h"
#include "portmap/mapping.h"

namespace nomad_bridge::cli {

struct HostSide {
  causes::Causes causes;
  bool are_rules_whole = true;  // our tables, their elements, and our rules in iptables' tables
};

// Returns whether the question is about this published port. A cause that cannot stop packets to
// any such port has `ends` false.
using IsMeant = std::function<bool(const portmap::DnatEntry& port)>;
[[nodiscard]] HostSide CompareHostSide(state::Host& host,
                                       const Attachment& attachment,
                                       const IsMeant& is_meant);

}  // namespace nomad_bridge::cli
