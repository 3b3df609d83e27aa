// Tables of iptables-legacy: a kernel interface of their own, which has no netlink, so that they are
// read and changed by their own tools; where a table is in use, and nowhere else.
//
// In use   is what somebody has made since the namespace was born; to ask for another would make it.
// Errors   kKernel if a tool is not installed or does not succeed; it is named.
// Locks    The tools wait for each other's lock (-w); ours must not be held meanwhile, except the
//          attachment's own.
#pragma once

#include <string>

#include "base/ip.h"

namespace nomad_bridge::foreign {

// "iptables-legacy" or "ip6tables-legacy".
[[nodiscard]] std::string LegacyTool(Family family);

// Those that the two functions below run.
[[nodiscard]] bool HasLegacyTools(Family family);

// `table`: "nat", "filter".
[[nodiscard]] bool IsLegacyTableInUse(Family family, const std::string& table);

// As iptables-save prints it.
[[nodiscard]] std::string SaveLegacyTable(Family family, const std::string& table);

// Provides what `plan`, in the same language, says, all or nothing; what it does not name stays.
void ChangeLegacyTable(Family family, const std::string& plan);

}  // namespace nomad_bridge::foreign
