// The host's side of a network is ours: ADD and CHECK put it right from the records before they go
// on.
#pragma once

#include <string>
#include <vector>

#include "plugin/config/config.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Every attachment of `network` whose host veth has left `bridge` becomes its port again (the
// bridge was deleted and made anew, or somebody took the port out). Says so on stderr.
void RepairPorts(state::Host& host, const rtnl::Link& bridge, const std::string& network);

// All of one attachment on the host's side: bridge, ports, leases, rules.
[[nodiscard]] std::vector<std::string> RepairHostSide(state::Host& host,
                                                      const config::LinkConfig& config,
                                                      const state::Record& record);

// The same, looking only: what would be mended, one phrase each.
[[nodiscard]] std::vector<std::string> DiffHostSide(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::attachment
