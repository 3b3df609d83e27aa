// The tools of other firewalls, run where a firewall has no interface but its tool.
//
// Where    in the system's own folders: PATH is the runtime's, and says nothing of them.
// Limits   30 seconds each, see base/subprocess.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.h"

namespace nomad_bridge::foreign {

// Its path; nullopt if it is not installed.
[[nodiscard]] std::optional<std::string> FindTool(const std::string& name);

[[nodiscard]] ExitInfo RunTool(const std::string& path,
                               std::vector<std::string> arguments,
                               std::string input = {});

// Why a tool that has not succeeded did not: how it ended and what it said.
[[nodiscard]] std::string WhyItFailed(const ExitInfo& exit);

}  // namespace nomad_bridge::foreign
