// Our table inet nomad-bridge: its name, the names that both firewall/ and portmap/ use in it, and
// the elements of its sets about addresses and bridges. The elements of published ports are in
// portmap/rules.h.
//
// Shapes  Every set, map and rule about addresses exists twice, for IPv4 ("alloc4") and IPv6
//         ("alloc6"). Keys are in network byte order. Elements for addresses carry a comment and
//         belong to one attachment. Elements for bridges have no comment and are shared. Names of
//         interfaces are padded with zeros to 16 bytes.
// Errors  kKernel from FindAddress(); the others are pure.
// Source  docs/inside/rules.md
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.h"
#include "firewall/contributor.h"
#include "firewall/forward_hook.h"
#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::firewall {

inline constexpr std::array kFamilies = {Family::kIpv4, Family::kIpv6};

// Set of mark: one element, which describes the tables (about.h).
constexpr const char* kAbout = "about";
// Sets of ifname: the bridges of our networks, and the bridges with a gateway of ours.
constexpr const char* kBridges = "bridges";
constexpr const char* kGateways = "gateways";
// Sets of addresses of allocations, without the digit of their family.
constexpr std::string_view kAlloc = "alloc";  // the node forwards for them
constexpr std::string_view kMasq = "masq";  // masqueraded to the outside, behind a gateway of ours
// Packets to their published ports get the bridge's address as source: if replies would otherwise
// bypass the node, and always.
constexpr std::string_view kSnat = "snat";
constexpr std::string_view kMasqAll = "masqall";
// The mark of packets from a bridge to 127.0.0.0/8 that have passed localhost_guard: answers that
// were translated to that address.
constexpr std::uint32_t kLocalhostAnswerMark = 0x6e62616e;
constexpr const char* kPostrouting = "postrouting";  // portmap has rules in it, too
constexpr const char* kForwardChain = "forward";     // policies have rules in these
constexpr const char* kUnmark = "unmark";
constexpr const char* kTranslated = "translated";

// inet nomad-bridge
[[nodiscard]] nft::TableId TableId(nft::TableFamily family = nft::TableFamily::kInet);

// "alloc4", "alloc6": the set called `noun` for `family`.
[[nodiscard]] std::string SetName(std::string_view noun, Family family);

// Returns whether a chain, set or counter of that name was made for policies
// (rules/policy_tables.h). Only these names have a hyphen.
[[nodiscard]] bool IsMadeForPolicies(std::string_view name);

// Returns the nft type of an address.
[[nodiscard]] nft::Type AddressType(Family family);

// Returns `ip` as the bytes of a key.
[[nodiscard]] std::vector<std::uint8_t> AddressKey(const Ip& ip);

// Returns a link's name as the bytes of a key.
[[nodiscard]] std::vector<std::uint8_t> NameKey(const std::string& link);

// Returns which of our tables has the set of `element`.
[[nodiscard]] nft::TableId TableOf(const nft::Element& element);

// Returns a prefix for a rule of ours: "127.0.0.0/8". `text` must be valid.
[[nodiscard]] Cidr Prefix(std::string_view text);

// What may happen to the packets of one address of an attachment: in which sets it is.
struct AddressPolicy {
  Ip address;
  bool forward = true;          // alloc4/6: the node forwards for it
  bool masquerade = false;      // masq4/6: its packets leave with the node's address (ipMasq)
  bool masquerade_lan = false;  // masqlan4/6: the same on a bridge without our gateway
  // nomasq4/6: its packets to these keep their source (nonMasqueradeCIDRs)
  std::vector<Cidr> not_masqueraded_to = {};
  bool random_ports = false;  // randomports4/6: the source ports are random, too (randomPorts)
  // snat4/6: packets to its published ports get the bridge's address as source if replies would
  // otherwise bypass the node (snat)
  bool snat = false;
  bool masquerade_all = false;  // masqall4/6: all packets to its published ports get it (masqAll)
  Inbound inbound = Inbound::kAny;
};

// The elements of `policies`, each with `comment`.
[[nodiscard]] std::vector<nft::Element> Elements(const std::vector<AddressPolicy>& policies,
                                                 const std::string& comment);

// Return the element that makes `bridge` one of ours, and the element that marks it as a bridge
// with a gateway.
[[nodiscard]] nft::Element BridgeElement(const std::string& bridge);
[[nodiscard]] nft::Element GatewayElement(const std::string& bridge);

// The elements that `ingress` needs for `bridge`, and the elements that the bridge must not have.
struct IngressElements {
  std::vector<nft::Element> add;
  std::vector<nft::Element> remove;
};
[[nodiscard]] IngressElements ElementsFor(Ingress ingress, const std::string& bridge);

// Returns the element of alloc4/6 for `address`, whichever owner it has; nullopt if there is no
// such element, or no table.
[[nodiscard]] std::optional<nft::Element> FindAddress(nft::Socket& socket, const Ip& address);

// The priority of our chain at the forward hook, which sets the mark: one step before iptables'.
constexpr int kForwardPriority = -1;

// The priorities of our NAT chains. The first chain that translates a packet wins, and of two with
// the same priority the younger one is asked first. The operator's rules must win whichever was
// loaded first, so ours come after iptables' (-100 and 100) and firewalld's (-90 and 110).
constexpr int kDestinationNatPriority = -80;
constexpr int kSourceNatPriority = 120;

// The chain for packets that conntrack assigns to no connection.
constexpr const char* kInvalid = "invalid";

// The sets named above, and the chains that forward and masquerade for their elements.
extern const Contributor kForwarding;

}  // namespace nomad_bridge::firewall
