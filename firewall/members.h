// What one attachment is, in the sets of our table: its addresses, and what may happen to them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ip.h"
#include "netlink/nft_element.h"
#include "netlink/nft_socket.h"

namespace nomad_bridge::firewall {

struct Member {
  Ip address;
  // ipMasq: leaves the node with the node's address (set masq4/6)
  bool masquerade = false;
  // snat: reached with the bridge's address where the way back would miss it (snat4/6)
  bool snat = false;
  // masqAll: whatever is published is reached with the bridge's address (masqall4/6)
  bool masquerade_all = false;
};

// The elements of `members` (alloc4/6 always), each with `comment`.
[[nodiscard]] std::vector<NftElement> Elements(const std::vector<Member>& members,
                                               const std::string& comment);

// The element that makes `bridge` one of ours; shared by every attachment on it.
[[nodiscard]] NftElement BridgeElement(const std::string& bridge);

// The element of alloc4/6 for `address`, whoever's it is; nullopt if there is none, or no table.
[[nodiscard]] std::optional<NftElement> FindMember(NftSocket& socket, const Ip& address);

}  // namespace nomad_bridge::firewall
