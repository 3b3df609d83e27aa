// Published ports: from a port of the node to a port of an allocation, checked. Pure.
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

namespace nomad_bridge::portmap {

enum class Protocol : std::uint8_t { kTcp = 6, kUdp = 17, kSctp = 132 };  // IPPROTO_* numbers

// "tcp", "udp", "sctp".
[[nodiscard]] std::string Text(Protocol protocol);
// In any letter case; nullopt for anything else.
[[nodiscard]] std::optional<Protocol> ParseProtocol(std::string_view text);

// One entry of runtimeConfig.portMappings, already of the right types, its ports in range.
struct PortMappingSpec {
  std::string path;  // "runtimeConfig.portMappings[2]"
  std::uint16_t host_port = 0;
  std::uint16_t container_port = 0;
  std::string protocol;  // empty = tcp
  // empty, "0.0.0.0" and "::" = every address (of both families, of IPv4, of IPv6)
  std::string host_ip;
};

// What the config asks for, before the allocation's addresses are known.
struct PortMapping {
  Protocol protocol = Protocol::kTcp;
  std::optional<Family> only;  // the family of host_ip, "0.0.0.0" or "::"
  std::optional<Ip> host_ip;
  std::uint16_t host_port = 0;
  std::uint16_t container_port = 0;
};

// Checks all of them. The same protocol, host address and port twice with the same target is no
// error (Nomad does that), with another target it is. ::1 is left out beside 127.0.0.1 or every
// address, and an error alone.
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

// The host's side, for messages: "tcp 8080", "udp 192.0.2.7:53", "tcp [2001:db8::1]:80".
[[nodiscard]] std::string DescribeHostPort(const DnatEntry& entry);

// Each published port for the first container address of each family it applies to. A host_ip of a
// family in which the container has no address is an error (kInvalidConfig).
[[nodiscard]] std::vector<DnatEntry> Resolve(const std::vector<PortMapping>& ports,
                                             const std::vector<Ip>& container_addresses);

}  // namespace nomad_bridge::portmap
