// What an allocation may send, checked at its port of a bridge: table bridge nomad-bridge, before
// anything else sees the frame, the bridge's own learning of MACs included. Rules of the inet table
// see frames between two ports with br_netfilter alone, and ARP never.
//
// Shapes  Elements carry a comment and belong to one attachment; ports are names of host veths.
// Errors  kKernel from the functions with a socket; the others are pure.
// Source  docs/rules.md; RFC 826, 4861, 6980.
#pragma once

#include <string>
#include <vector>

#include "base/ip.h"
#include "firewall/contributor.h"
#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

// What may come in by a port.
struct PortSource {
  std::string port;
  Mac mac;
  std::vector<Ip> addresses;  // besides the link-local one that the kernel derives from the MAC
};

[[nodiscard]] std::vector<nft::Element> Elements(const PortSource& source,
                                                 const std::string& comment);

// The set of ports that exchange no frames with each other (ingressPolicy isolated).
constexpr const char* kIsolated = "isolated";
// That makes `port` one of `set`.
[[nodiscard]] nft::Element PortElement(const std::string& set,
                                       const std::string& port,
                                       const std::string& comment);

// All of table bridge nomad-bridge.
extern const Contributor kPortFilter;

// Whether this kernel has the bridge family of nf_tables (CONFIG_NF_TABLES_BRIDGE). Reading tells
// nothing, so unless the table is there another is created, and deleted in the same batch.
[[nodiscard]] bool HasBridgeFamily(nft::Socket& socket);

}  // namespace nomad_bridge::firewall
