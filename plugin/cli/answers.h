// Whether an allocation answers its clients, in one line: the last line of `inspect`.
//
// Sent     FindNearby() sends two more packets, from the node and from one neighbour
//          (causes/probe.h).
// Errors   kKernel
#pragma once

#include <string>
#include <vector>

#include "plugin/causes/connection.h"
#include "plugin/cli/inspection.h"
#include "plugin/cli/inventory.h"

namespace nomad_bridge::cli {

// Returns what `found` answers to the question: whether anyone outside or the client of -from gets
// an answer, or whether the allocation reaches the target of -to. Returns none if no connection was
// in question or could be tried.
[[nodiscard]] std::vector<Answer> AnswersTo(const Question& question, const Inspected& found);

// Returns the port in question, or the first published port; prefers TCP. Returns nullptr if the
// record has no port of `family`; nullopt: any.
[[nodiscard]] const portmap::DnatEntry* FindPort(const state::Record& record,
                                                 const Question& question,
                                                 std::optional<Family> family = std::nullopt);

// Returns whether the node itself, and one living neighbour on the attachment's bridge, get an
// answer from its port.
[[nodiscard]] std::vector<Answer> FindNearby(state::Host& host,
                                             const Attachment& attachment,
                                             const Inventory& inventory,
                                             const Question& question);

// Shows "answers" of docs/schema/inspect.json: "answers outside, the node and neighbours".
[[nodiscard]] std::string ShowAnswer(const Json& attachment);

}  // namespace nomad_bridge::cli
