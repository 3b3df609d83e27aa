// Asks the machines of a segment who has an address, before this node takes the address.
//
// How      By ARP, or by neighbour discovery of IPv6, three times in 0.6 seconds, through a packet
//          socket: neither a neighbour entry nor an address of this node is needed or made.
// Answers  Any ARP packet from the address, and any advertisement of it. A probe has no sender
//          address, so that a router does not answer on behalf of others (proxy ARP).
// Own MAC  Answers with the MAC of the asking link do not count: a bridge that nomad-bridge made
//          has the same MAC on every node.
// Misses   A machine that is slow to answer, or that is behind a port without a carrier or still
//          held back by spanning tree.
// Root     CAP_NET_RAW
// Errors   kKernel if no packet socket can be opened
// Source   packet(7); RFC 5227, section 2.1.1; RFC 4862, section 5.4
#pragma once

#include <set>

#include "base/ip.h"
#include "netlink/core/netns.h"

namespace nomad_bridge::probe {

// Returns the MACs of the machines that answer for `address` at `link` of `ns`, whose MAC is `own`.
// Returns as soon as one has answered; takes 0.6 seconds if none does. Nobody answers at a link
// that is down.
[[nodiscard]] std::set<Mac> FindHolders(const netlink::Netns& ns,
                                        int link,
                                        const Mac& own,
                                        const Ip& address);

}  // namespace nomad_bridge::probe
