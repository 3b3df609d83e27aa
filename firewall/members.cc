#include "firewall/members.h"

#include <algorithm>

#include "firewall/table.h"

namespace nomad_bridge::firewall {

std::vector<NftElement> Elements(const std::vector<Member>& members, const std::string& comment) {
  std::vector<NftElement> elements;
  for (const Member& member : members) {
    const auto add = [&](std::string_view noun) {
      elements.push_back({.set = SetName(noun, member.address.family()),
                          .key = AddressKey(member.address),
                          .data = {},
                          .comment = comment});
    };
    add(kAlloc);
    if (member.masquerade) {
      add(kMasq);
    }
    if (member.snat) {
      add(kSnat);
    }
    if (member.masquerade_all) {
      add(kMasqAll);
    }
  }
  return elements;
}

NftElement BridgeElement(const std::string& bridge) {
  std::vector<std::uint8_t> name(PaddedBytes(NftType::kIfname));
  std::copy_n(bridge.begin(), std::min(bridge.size(), name.size()), name.begin());
  return {.set = kBridges, .key = std::move(name), .data = {}, .comment = {}};
}

std::optional<NftElement> FindMember(NftSocket& socket, const Ip& address) {
  return socket.FindElement(TableId(),
                            {.set = SetName(kAlloc, address.family()),
                             .key = AddressKey(address),
                             .data = {},
                             .comment = {}});
}

}  // namespace nomad_bridge::firewall
