// Reads the rules by which the reference portmap plugin publishes ports: those of iptables-nft (the
// chains CNI-DN-...) and those of its backend nftables.
//
// Source  CNI plugins 1.1.1 to 1.9.1: plugins/meta/portmap; the kernel's nf_nat.h, xt_tcpudp.h.
#pragma once

#include <optional>

#include "netlink/nft/socket.h"
#include "portmap/mapping.h"

namespace nomad_bridge::takeover {

// Returns the port that `rule` publishes; nullopt if it publishes none, or if it is not written as
// the plugin writes it.
[[nodiscard]] std::optional<portmap::DnatEntry> ParseDnatRule(const nft::KernelRule& rule,
                                                              Family family);

}  // namespace nomad_bridge::takeover
