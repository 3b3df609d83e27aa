// Our one table: its name, and the names of what firewall/ and portmap/ both use in it.
//
// Shapes  Every set, map and rule about addresses exists twice, for IPv4 ("alloc4") and IPv6
//         ("alloc6").
// Source  docs/rules.md
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.h"
#include "netlink/nft/element.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::firewall {

inline constexpr std::array kFamilies = {Family::kIpv4, Family::kIpv6};

constexpr const char* kBridges = "bridges";  // set of ifname: the bridges of our networks
constexpr const char* kIngressRestricted =
    "ingress_restricted";  // set of ifname: those that keep to themselves
constexpr const char* kIngressAllowed =
    "ingress_allowed";                        // set of ifname . ifname: who may talk all the same
constexpr std::string_view kAlloc = "alloc";  // sets of addresses: who may talk
constexpr std::string_view kMasq = "masq";    // who leaves as the node
// Who is reached as the node where the way back would miss it.
constexpr std::string_view kSnat = "snat";
constexpr std::string_view kMasqAll = "masqall";     // who is always reached as the node
constexpr const char* kPostrouting = "postrouting";  // the chain portmap adds to

// inet nomad-bridge
[[nodiscard]] nft::TableId TableId();

// "alloc4", "alloc6": the set called `noun` for `family`.
[[nodiscard]] std::string SetName(std::string_view noun, Family family);

// The nft type of an address.
[[nodiscard]] nft::Type AddressType(Family family);

// `ip` as the bytes of a key.
[[nodiscard]] std::vector<std::uint8_t> AddressKey(const Ip& ip);

// A prefix that stands in a rule of ours: "127.0.0.0/8". `text` must be one.
[[nodiscard]] Cidr Prefix(std::string_view text);

// The firewall's part of our table: the sets named above, and the chains guard, forward and
// postrouting. portmap::Describe adds maps and chains to it, and rules to postrouting.
[[nodiscard]] nft::Table Describe(int accept_mark_bit);

}  // namespace nomad_bridge::firewall
