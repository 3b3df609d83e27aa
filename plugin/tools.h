// The tools of other firewalls, run where a firewall has no interface but its tool.
//
// Where    in the system's own folders: PATH is the runtime's, and says nothing of them.
// Limits   30 seconds each, see base/program.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/program.h"

namespace nomad_bridge {

// Its path; nullopt if it is not installed.
[[nodiscard]] std::optional<std::string> FindTool(const std::string& name);

[[nodiscard]] Ending RunTool(const std::string& path,
                             std::vector<std::string> arguments,
                             std::string input = {});

// Why a tool that has not succeeded did not: how it ended and what it said.
[[nodiscard]] std::string WhyItFailed(const Ending& ending);

}  // namespace nomad_bridge
