// The maps of published ports: their names without the family's digit.
#pragma once

#include <string_view>

namespace nomad_bridge::portmap {

constexpr std::string_view kPort = "port";      // protocol . port -> address . port
constexpr std::string_view kHostIp = "hostip";  // address . protocol . port -> address . port

}  // namespace nomad_bridge::portmap
