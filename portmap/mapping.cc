#include "portmap/mapping.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge::portmap {
namespace {

// Accepts any letter case.
Protocol CheckProtocol(const PortMappingSpec& spec) {
  const std::optional<Protocol> protocol =
      spec.protocol.empty() ? Protocol::kTcp : FindNamed(kProtocolNames, Lower(spec.protocol));
  if (!protocol || *protocol == Protocol::kIcmp) {
    throw Error(Code::kInvalidConfig,
                Format("invalid '{}.protocol': '{}'", spec.path, Printable(spec.protocol)),
                "allowed: tcp, udp, sctp");
  }
  return *protocol;
}

// Returns whether a host can have `ip`: no multicast or broadcast address, and nothing in
// 0.0.0.0/8, whose packets the kernel drops; 0.0.0.0 itself means every address.
bool CanBeHostAddress(const Ip& ip) {
  const std::uint8_t first = ip.bytes().front();
  const bool is_broadcast = ip.is_ipv4() && Cidr{ip, 0}.Last() == ip;
  return !ip.IsMulticast() && !is_broadcast && (!ip.is_ipv4() || first != 0 || ip.IsUnspecified());
}

bool IsIpv6Localhost(const PortMapping& port) {
  return port.only == Family::kIpv6 && port.host_ip && port.host_ip->IsLoopback();
}

// Returns the host address; nullopt means every address.
std::optional<Ip> CheckHostIp(const PortMappingSpec& spec) {
  if (spec.host_ip.empty()) {
    return std::nullopt;
  }
  const std::optional<Ip> ip = Ip::Parse(spec.host_ip);
  if (!ip || !CanBeHostAddress(*ip)) {
    throw Error(Code::kInvalidConfig,
                Format("invalid '{}.hostIP': '{}'", spec.path, Printable(spec.host_ip)),
                "allowed: an IPv4 or IPv6 address of this host, no multicast or broadcast, and of "
                "0.0.0.0/8 only 0.0.0.0");
  }
  return ip;
}

PortMapping Check(const PortMappingSpec& spec) {
  const std::optional<Ip> host_ip = CheckHostIp(spec);
  PortMapping port{.protocol = CheckProtocol(spec),
                   .host_port = spec.host_port,
                   .container_port = spec.container_port};
  if (host_ip) {
    port.only = host_ip->family();
    port.host_ip = host_ip->IsUnspecified() ? std::nullopt : host_ip;
  }
  return port;
}

// Returns whether both could become the same entry of the same map.
bool Collide(const PortMapping& a, const PortMapping& b) {
  const bool share_family = !a.only || !b.only || a.only == b.only;
  return a.protocol == b.protocol && a.host_port == b.host_port && a.host_ip == b.host_ip &&
         share_family;
}

// Leaves out ports on ::1, where nothing answers (rules.cc): clients then try 127.0.0.1. Throws if
// such a port does not also answer on 127.0.0.1.
void LeaveOutIpv6Localhost(std::vector<PortMapping>& ports,
                           const std::vector<PortMappingSpec>& specs) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const PortMapping& port = ports[i];
    const auto answers = [&](const PortMapping& other) {
      return other.protocol == port.protocol && other.host_port == port.host_port &&
             other.only != Family::kIpv6 && (!other.host_ip || other.host_ip->IsLoopback());
    };
    if (IsIpv6Localhost(port) && std::ranges::none_of(ports, answers)) {
      throw Error(
          Code::kInvalidConfig,
          Format("invalid '{}.hostIP': '::1'", specs[i].path),
          "a published port cannot answer on ::1: the kernel drops answers for it that come "
          "in by another link than lo; allowed: 127.0.0.1");
    }
  }
  std::erase_if(ports, IsIpv6Localhost);
}

[[noreturn]] void ThrowNoAddress(const PortMapping& port, Family family) {
  const std::string_view name = family == Family::kIpv4 ? "IPv4" : "IPv6";
  const std::string place = port.host_ip ? port.host_ip->Text() : Cat("every ", name, " address");
  const std::string published =
      Format("{} port {} on {}", Text(port.protocol), port.host_port, place);
  throw Error(Code::kInvalidConfig,
              Cat("runtimeConfig.portMappings publishes ", published),
              Cat("the allocation has no ", name, " address"));
}

// Returns nullopt if `port` is not published for `family`, or the allocation has no address of it.
std::optional<DnatEntry> ResolveOne(const PortMapping& port,
                                    Family family,
                                    const std::vector<Ip>& container_addresses) {
  if (port.only.value_or(family) != family) {
    return std::nullopt;
  }
  const auto container = std::ranges::find(container_addresses, family, &Ip::family);
  if (container == container_addresses.end()) {
    if (port.only) {
      ThrowNoAddress(port, family);
    }
    return std::nullopt;
  }
  return DnatEntry{.protocol = port.protocol,
                   .host_ip = port.host_ip,
                   .host_port = port.host_port,
                   .container_ip = *container,
                   .container_port = port.container_port};
}

}  // namespace

std::string DescribeHostPort(const DnatEntry& entry) {
  const std::string address = entry.host_ip ? Cat(Bracketed(*entry.host_ip), ':') : "";
  return Cat(Text(entry.protocol), ' ', address, entry.host_port);
}

std::vector<PortMapping> MakePortMappings(const std::vector<PortMappingSpec>& specs) {
  std::vector<PortMapping> ports;
  for (const PortMappingSpec& spec : specs) {
    const PortMapping port = Check(spec);
    const auto twin = std::ranges::find_if(ports, [&](const PortMapping& earlier) {
      return Collide(earlier, port) && earlier.container_port != port.container_port;
    });
    if (twin != ports.end()) {
      const int first = twin->container_port;
      throw Error(
          Code::kInvalidConfig,
          Format("{} publishes {} port {} again", spec.path, Text(port.protocol), port.host_port),
          Format("it leads to port {} already, and now to {}", first, port.container_port));
    }
    ports.push_back(port);
  }
  LeaveOutIpv6Localhost(ports, specs);
  return ports;
}

std::vector<DnatEntry> Resolve(const std::vector<PortMapping>& ports,
                               const std::vector<Ip>& container_addresses) {
  std::vector<DnatEntry> mappings;
  for (const PortMapping& port : ports) {
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      const std::optional<DnatEntry> mapping = ResolveOne(port, family, container_addresses);
      if (mapping && std::ranges::find(mappings, *mapping) == mappings.end()) {
        mappings.push_back(*mapping);
      }
    }
  }
  return mappings;
}

}  // namespace nomad_bridge::portmap
