#include "firewall/address_policy.h"

#include <utility>

#include "base/list.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

nft::Element Shared(const char* set, std::vector<std::uint8_t> key) {
  return {.set = set, .key = std::move(key)};
}

}  // namespace

std::vector<nft::Element> Elements(const std::vector<AddressPolicy>& policies,
                                   const std::string& comment) {
  std::vector<nft::Element> elements;
  for (const AddressPolicy& policy : policies) {
    for (const auto& [is_in, noun] : {std::pair(policy.forward, kAlloc),
                                      std::pair(policy.masquerade, kMasq),
                                      std::pair(policy.masquerade_lan, kMasqLan),
                                      std::pair(policy.random_ports, kRandomPorts),
                                      std::pair(policy.snat, kSnat),
                                      std::pair(policy.masquerade_all, kMasqAll),
                                      std::pair(policy.inbound == Inbound::kPublished, kClosed)}) {
      if (is_in) {
        elements.push_back({.set = SetName(noun, policy.address.family()),
                            .key = AddressKey(policy.address),
                            .comment = comment});
      }
    }
  }
  return elements;
}

nft::Element BridgeElement(const std::string& bridge) {
  return Shared(kBridges, NameKey(bridge));
}

nft::Element GatewayElement(const std::string& bridge) {
  return Shared(kGateways, NameKey(bridge));
}

IngressElements ElementsFor(Ingress ingress, const std::string& bridge) {
  std::vector<std::uint8_t> pair = NameKey(bridge);
  const nft::Element restricted = Shared(kIngressRestricted, pair);
  Append(pair, NameKey(bridge));
  const nft::Element allowed = Shared(kIngressAllowed, std::move(pair));
  IngressElements elements;
  (ingress == Ingress::kOpen ? elements.remove : elements.add).push_back(restricted);
  (ingress == Ingress::kSameBridge ? elements.add : elements.remove).push_back(allowed);
  return elements;
}

std::optional<nft::Element> FindAddress(nft::Socket& socket, const Ip& address) {
  return socket.FindElement(TableId(),
                            {.set = SetName(kAlloc, address.family()), .key = AddressKey(address)});
}

}  // namespace nomad_bridge::firewall
