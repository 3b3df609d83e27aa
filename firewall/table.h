// Our table inet nomad-bridge: its name, and the names that both firewall/ and portmap/ use in it.
// Pure.
//
// Shapes  Every set, map and rule about addresses exists twice, for IPv4 ("alloc4") and IPv6
//         ("alloc6"). Keys are in network byte order.
// Source  docs/rules.md
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.h"
#include "firewall/contributor.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::firewall {

inline constexpr std::array kFamilies = {Family::kIpv4, Family::kIpv6};

// Set of mark: one element, which describes the tables (about.h).
constexpr const char* kAbout = "about";
// Sets of ifname: the bridges of our networks, the bridges with a gateway of ours, and the bridges
// whose network is not open.
constexpr const char* kBridges = "bridges";
constexpr const char* kGateways = "gateways";
constexpr const char* kIngressRestricted = "ingress_restricted";
// Set of ifname . ifname: pairs of interfaces that may exchange packets despite an ingressPolicy.
constexpr const char* kIngressAllowed = "ingress_allowed";
// Sets of addresses of allocations, without the digit of their family.
constexpr std::string_view kAlloc = "alloc";  // the node forwards for them
// Their packets to the outside are masqueraded: behind a gateway of ours, and elsewhere.
// kRandomPorts is a subset of these.
constexpr std::string_view kMasq = "masq";
constexpr std::string_view kMasqLan = "masqlan";
constexpr std::string_view kRandomPorts = "randomports";
// Packets to their published ports get the bridge's address as source: if replies would otherwise
// bypass the node, and always.
constexpr std::string_view kSnat = "snat";
constexpr std::string_view kMasqAll = "masqall";
constexpr std::string_view kClosed = "closed";  // closed to the outside, except for published ports
// The mark of packets from a bridge to 127.0.0.0/8 that have passed localhost_guard: answers that
// were translated to that address.
constexpr std::uint32_t kLocalhostAnswerMark = 0x6e62616e;
constexpr const char* kPostrouting = "postrouting";  // portmap has rules in it, too

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

// The sets named above, and the chains that forward and masquerade for their elements.
extern const Contributor kForwarding;

}  // namespace nomad_bridge::firewall
