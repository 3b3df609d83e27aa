// Tables of iptables-legacy: they have no netlink interface, so they are read and changed by their own
// tools, and only where such a table is in use: looking into another would create it.
//
// Shapes  Tables in the language of iptables-save and iptables-restore.
// Errors  kKernel, naming the tool, if it is not installed or fails.
// Kernel  What it tells without a tool is a table's number of rules and their bytes.
// Locks   The tools wait for each other's lock (-w). The rules' lock must not be held meanwhile.
// Source  iptables-save(8), iptables-restore(8); /proc/net/ip_tables_names.
#pragma once

#include <string>

#include "base/ip.h"

namespace nomad_bridge::foreign {

// "iptables-legacy" or "ip6tables-legacy".
[[nodiscard]] std::string LegacyTool(Family family);

// Whether those are installed that the last two functions run.
[[nodiscard]] bool HasLegacyTools(Family family);

// Whether some program has used `table` ("nat", "filter") since the namespace was created.
[[nodiscard]] bool IsLegacyTableInUse(Family family, const std::string& table);

// Another one when a table "filter" of iptables-legacy, of either family, has appeared, or has other
// rules; empty if none is in use. Two system calls per family where one is.
[[nodiscard]] std::string FilterFingerprint();

// As iptables-save prints it.
[[nodiscard]] std::string SaveLegacyTable(Family family, const std::string& table);

// Applies `plan`, all or nothing; what it does not name stays.
void ChangeLegacyTable(Family family, const std::string& plan);

}  // namespace nomad_bridge::foreign
