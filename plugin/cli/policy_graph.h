// policy show -graph: who reaches whom, as Mermaid, which code reviews and wikis render.
//
// Nodes   Nomad's namespaces, or its jobs; `outside`; and `node`
// Edges   labelled with the ports that some allocation of the first node reaches on some allocation
//         of the second, or with `all`. Dotted edges are connections that policies have refused,
//         or audit mode would have refused, within the last hour, if that is still so.
// Source  https://mermaid.js.org/syntax/flowchart.html
#pragma once

#include <string>

#include "plugin/state/host.h"

namespace nomad_bridge::cli {

enum class GraphOf { kNamespaces, kJobs };

[[nodiscard]] std::string PolicyGraph(state::Host& host, GraphOf of);

}  // namespace nomad_bridge::cli
