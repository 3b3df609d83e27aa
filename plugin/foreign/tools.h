// The command-line tools of other firewalls, run where a firewall has no other interface:
// firewalld, and iptables-legacy, whose tables are looked into only where they are in use, since
// that would create them.
//
// Shapes  Found in the system's own directories: PATH is the runtime's, and need not hold them.
// Errors  kKernel if a subprocess cannot be started. A tool that fails is a value of RunTool().
// Kernel  What it tells of such a table without a tool is its number of rules and their bytes.
// Limits  30 seconds each; see base/subprocess.h.
// Locks   iptables' tools wait for each other's lock (-w). The rules' lock must not be held
//         meanwhile.
// Source  iptables(8); /proc/net/ip_tables_names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ip.h"
#include "base/subprocess.h"

namespace nomad_bridge::foreign {

// The path of `name`; nullopt if it is not installed.
[[nodiscard]] std::optional<std::string> FindTool(const std::string& name);

[[nodiscard]] ExitInfo RunTool(const std::string& path, std::vector<std::string> arguments);

// kKernel, for a tool that failed.
[[nodiscard]] Error ToolError(const std::string& path, const ExitInfo& exit);

// "iptables-legacy" or "ip6tables-legacy".
[[nodiscard]] std::string LegacyTool(Family family);

// Whether some program has used `table` ("nat", "filter") since the namespace was created.
[[nodiscard]] bool IsLegacyTableInUse(Family family, const std::string& table);

// Another one when a table "filter" of iptables-legacy, of either family, has appeared, or has
// other rules; empty if none is in use. Two system calls per family where one is.
[[nodiscard]] std::string FilterFingerprint();

}  // namespace nomad_bridge::foreign
