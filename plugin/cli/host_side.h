// Compares the host's side of an attachment with its record.
//
// Changes  nothing. The attachment's lock is tried: an attachment that a command works on is not
//          compared.
// Errors   kKernel
#pragma once

#include <functional>

#include "plugin/causes/cause.h"
#include "plugin/cli/inventory.h"
#include "portmap/mapping.h"

namespace nomad_bridge::cli {

struct HostSide {
  causes::Causes causes;
  bool are_rules_whole = true;  // tables, elements, and those in iptables' tables
};

// Returns whether a published port is in question.
using IsMeant = std::function<bool(const portmap::DnatEntry& port)>;
[[nodiscard]] HostSide CompareHostSide(state::Host& host,
                                       const Attachment& attachment,
                                       const IsMeant& is_meant);

}  // namespace nomad_bridge::cli
