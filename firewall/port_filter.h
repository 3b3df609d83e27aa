// Checks what an allocation sends, at its bridge port: table bridge nomad-bridge sees a frame
// before anything else does, even before the bridge learns the MAC. Rules of the inet table see
// frames between two ports only with br_netfilter, and never ARP.
//
// Shapes  Elements carry a comment and belong to one attachment; ports are names of host veths.
// Errors  kKernel from the functions with a socket; the others are pure.
// Source  docs/inside/rules.md; RFC 826, 4861, 6980.
#pragma once

#include <string>
#include <vector>

#include "base/ip.h"
#include "firewall/contributor.h"
#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

// The source addresses with which frames may come in by a port.
struct PortSource {
  std::string port;
  Mac mac;
  std::vector<Ip> addresses;  // without the link-local address of the MAC
};

[[nodiscard]] std::vector<nft::Element> Elements(const PortSource& source,
                                                 const std::string& comment);

// nft's dstnat and filter in the bridge family: the priorities of our chains.
constexpr int kBridgeDstnat = -300;
constexpr int kBridgeFilter = -200;

// Returns the elements of a port that exchanges no frames with other such ports (ingressPolicy
// isolated), and of the addresses behind it.
[[nodiscard]] std::vector<nft::Element> IsolatedElements(const std::string& port,
                                                         const std::vector<Ip>& addresses,
                                                         const std::string& comment);

// Returns the element that makes `port` a member of `set`.
[[nodiscard]] nft::Element PortElement(const std::string& set,
                                       const std::string& port,
                                       const std::string& comment);

// All sets, chains and rules of table bridge nomad-bridge.
extern const Contributor kPortFilter;

// Returns whether this kernel has the bridge family of nf_tables (CONFIG_NF_TABLES_BRIDGE). Reading
// does not show this. So unless our table is there, another table is created, and deleted in the
// same batch.
[[nodiscard]] bool HasBridgeFamily(nft::Socket& socket);

}  // namespace nomad_bridge::firewall
