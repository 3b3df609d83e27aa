// What the commands say that work on all attachments: reconcile, gc.
//
// Shapes  For people: what a dry run found, a line each, and a last line with numbers, on stdout; what
//         failed on stderr, as is what was done (base/log.h). -json: docs/schema/reconcile.json.
#pragma once

#include <array>
#include <string_view>

#include "plugin/attachment/outcome.h"
#include "plugin/cli/command.h"

namespace nomad_bridge::cli {

inline constexpr std::array<Flag, 2> kOutcomeFlags = {
    Flag{"dry-run", nullptr, "changes nothing, and says what it would"},
    Flag{"json", nullptr, "prints one JSON document"}};

// -dry-run: kLook.
[[nodiscard]] Mode ModeOf(const Arguments& arguments);

// A counter on stderr, if that is a terminal.
[[nodiscard]] attachment::Progress ProgressOnTerminal(std::string_view command);

// kOthersChanged: only what all attachments share was compared.
enum class RulesetState { kCompared, kOthersChanged, kUnchanged };

// Prints the `outcome` of `command`, and returns the exit code: kNo if something failed, or a dry run found
// something.
[[nodiscard]] int Report(const Arguments& arguments,
                         std::string_view command,
                         const attachment::Outcome& outcome,
                         RulesetState state = RulesetState::kCompared);

}  // namespace nomad_bridge::cli
