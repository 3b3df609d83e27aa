// policy show -graph: who reaches whom, as Mermaid, which code reviews and wikis render.
//
// Nodes   Nomad's namespaces, or jobs; `outside`; and `node`, if something may be refused to it.
// Edges   the ports that one of the first node's allocations reaches at one of the second's,
//         `all` for every port; dotted: connections that were refused within the last hour.
// Source  https://mermaid.js.org/syntax/flowchart.html
#pragma once

#include <string>

#include "plugin/state/host.h"

namespace nomad_bridge::cli {

enum class GraphOf { kNamespaces, kJobs };

[[nodiscard]] std::string PolicyGraph(state::Host& host, GraphOf of);

}  // namespace nomad_bridge::cli
