// What every CHECK needs: something to compare with, and one error that names every mismatch.
//
// Errors   kInvalidConfig without a prevResult; kChanged for mismatches.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugin/config/config.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::commands {

// That there is one: ADD's result, or that of the plugin before us in the list.
void RequirePrevResult(const config::Config& config);

// The value of `record`. Throws kChanged if there is none for `id`, or one in another namespace than
// `container`.
[[nodiscard]] state::Record RequireRecord(std::optional<state::Record> record,
                                          const AttachmentId& id,
                                          const netlink::NetnsId& container);

// What CHECK cannot repair of the host's side, or, if the config forbids it, may not.
[[nodiscard]] std::vector<std::string> MismatchesLeft(state::Host& host,
                                                      const config::Config& config,
                                                      const state::Record& record);

// Throws kChanged with all of `mismatches`, if there are any.
void ThrowIfChanged(const AttachmentId& id, const std::vector<std::string>& mismatches);

}  // namespace nomad_bridge::commands
