// The host's side of a network is ours: ADD and CHECK put it right from the records before they go
// on.
#pragma once

#include <string>
#include <vector>

#include "plugin/config.h"
#include "plugin/host.h"
#include "plugin/record.h"

namespace nomad_bridge {

// Every attachment of `network` whose host veth has left `bridge` becomes its port again (the
// bridge was deleted and made anew, or somebody took the port out). Says so on stderr.
void MendPorts(Host& host, const Link& bridge, const std::string& network);

// All of one attachment on the host's side: bridge, ports, leases, rules.
[[nodiscard]] std::vector<std::string> MendHostSide(Host& host,
                                                    const LinkConfig& config,
                                                    const Record& record);

// The same, looking only: what would be mended, one phrase each.
[[nodiscard]] std::vector<std::string> FaultsOfHostSide(Host& host, const Record& record);

}  // namespace nomad_bridge
