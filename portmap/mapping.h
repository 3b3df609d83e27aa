// Published ports, checked: from a port of the node to a port of an allocation. Pure.
//
// Shapes  Ports are in host byte order, 1..65535. `host_ip` nullopt: every local address of the
//         family.
// Errors  kInvalidConfig, naming key path, value and what is allowed.
// Source  CNI conventions, "portMappings" capability; CNI plugins, portmap.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ip.h"
#include "base/protocol.h"

namespace nomad_bridge::portmap {

// One entry of runtimeConfig.portMappings: its types are right, and its ports in range.
struct PortMappingSpec {
  std::string path;  // "runtimeConfig.portMappings[2]"
  std::uint16_t host_port = 0;
  std::uint16_t container_port = 0;
  std::string protocol;  // empty = tcp
  // empty, "0.0.0.0" and "::" = every address (of both families, of IPv4, of IPv6)
  std::string host_ip;
};

// What the config requests, before the allocation's addresses are known.
struct PortMapping {
  Protocol protocol = Protocol::kTcp;
  std::optional<Family> only;  // the family of host_ip, "0.0.0.0" or "::"
  std::optional<Ip> host_ip;
  std::uint16_t host_port = 0;
  std::uint16_t container_port = 0;
};

// Checks all mappings. It is an error if the same protocol, host address and port occurs twice with
// different targets, but not with the same target, as Nomad sends it. Leaves out ::1 if the port is
// also published on 127.0.0.1 or on every address; otherwise ::1 is an error.
[[nodiscard]] std::vector<PortMapping> MakePortMappings(const std::vector<PortMappingSpec>& specs);

// One entry of a map in the kernel.
struct DnatEntry {
  Protocol protocol = Protocol::kTcp;
  std::optional<Ip> host_ip;
  std::uint16_t host_port = 0;
  Ip container_ip;
  std::uint16_t container_port = 0;

  bool operator==(const DnatEntry&) const = default;
};

// Returns the host's side, for messages: "tcp 8080", "udp 192.0.2.7:53", "tcp [2001:db8::1]:80".
[[nodiscard]] std::string DescribeHostPort(const DnatEntry& entry);

// Returns an entry for each published port and each family that it applies to, leading to the
// container's first address of that family. Throws kInvalidConfig for a host_ip of a family in
// which the container has no address.
[[nodiscard]] std::vector<DnatEntry> Resolve(const std::vector<PortMapping>& ports,
                                             const std::vector<Ip>& container_addresses);

}  // namespace nomad_bridge::portmap
