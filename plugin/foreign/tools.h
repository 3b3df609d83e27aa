// The command-line tools of other firewalls, run where a firewall has no other interface.
//
// Shapes  Found in the system's own directories: PATH is the runtime's, and need not hold them.
// Errors  kKernel if the subprocess cannot be started; a tool that fails is a value.
// Limits  30 seconds each; see base/subprocess.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.h"

namespace nomad_bridge::foreign {

// The path of `name`; nullopt if it is not installed.
[[nodiscard]] std::optional<std::string> FindTool(const std::string& name);

[[nodiscard]] ExitInfo RunTool(const std::string& path,
                               std::vector<std::string> arguments,
                               std::string input = {});

// Why a tool failed: how it ended, and its stderr.
[[nodiscard]] std::string WhyItFailed(const ExitInfo& exit);

}  // namespace nomad_bridge::foreign
