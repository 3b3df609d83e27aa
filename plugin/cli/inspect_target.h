// The target that an allocation does not reach: the argument of `inspect -to`.
//
// Errors   UsageError if the argument is not a valid target; CannotTell if no allocation has that
//          name, or the allocation has no address.
#pragma once

#include "plugin/cli/command.h"
#include "plugin/cli/named_attachments.h"
#include "plugin/cli/side_mismatches.h"

namespace nomad_bridge::cli {

// Returns the target of -to: "10.0.0.1:22", "[2001:db8::1]:53/udp", "api:8080", "shop/api:8080";
// nullopt without -to.
[[nodiscard]] std::optional<Question::Target> TargetOf(const Arguments& arguments,
                                                       const Inventory& inventory);

// Throws UsageError if the question names a client, but the target is no address of `attachments`.
void CheckTarget(const Question& question, const Attachments& attachments);

}  // namespace nomad_bridge::cli
