#include "firewall/address_policy.h"

#include <algorithm>
#include <utility>

#include "base/list.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

std::vector<std::uint8_t> NameKey(const std::string& link) {
  std::vector<std::uint8_t> name(nft::PaddedBytes(nft::Type::kIfname));
  std::copy_n(link.begin(), std::min(link.size(), name.size()), name.begin());
  return name;
}

nft::Element Shared(const char* set, std::vector<std::uint8_t> key) {
  return {.set = set, .key = std::move(key), .data = {}, .comment = {}};
}

}  // namespace

std::vector<nft::Element> Elements(const std::vector<AddressPolicy>& policies,
                                   const std::string& comment) {
  std::vector<nft::Element> elements;
  for (const AddressPolicy& policy : policies) {
    for (const auto& [is_in, noun] : {std::pair(policy.forward, kAlloc),
                                      std::pair(policy.masquerade, kMasq),
                                      std::pair(policy.snat, kSnat),
                                      std::pair(policy.masquerade_all, kMasqAll)}) {
      if (is_in) {
        elements.push_back({.set = SetName(noun, policy.address.family()),
                            .key = AddressKey(policy.address),
                            .data = {},
                            .comment = comment});
      }
    }
  }
  return elements;
}

nft::Element BridgeElement(const std::string& bridge) {
  return Shared(kBridges, NameKey(bridge));
}

std::vector<std::string> SharedBridges(nft::Socket& socket) {
  std::vector<std::string> names;
  for (const nft::Element& element : socket.Elements(TableId(), kBridges)) {
    if (element.comment.empty()) {
      names.emplace_back(element.key.begin(), std::find(element.key.begin(), element.key.end(), 0));
    }
  }
  return names;
}

IngressElements ElementsFor(Ingress ingress, const std::string& bridge) {
  std::vector<std::uint8_t> pair = NameKey(bridge);
  const nft::Element restricted = Shared(kIngressRestricted, pair);
  Append(pair, NameKey(bridge));
  const nft::Element allowed = Shared(kIngressAllowed, std::move(pair));
  switch (ingress) {
    case Ingress::kOpen:
      return {.add = {}, .remove = {restricted, allowed}};
    case Ingress::kSameBridge:
      return {.add = {restricted, allowed}, .remove = {}};
    case Ingress::kIsolated:
      return {.add = {restricted}, .remove = {allowed}};
  }
  return {};
}

std::string_view Text(Ingress ingress) {
  switch (ingress) {
    case Ingress::kOpen:
      return "open";
    case Ingress::kSameBridge:
      return "same-bridge";
    case Ingress::kIsolated:
      return "isolated";
  }
  return {};
}

std::optional<Ingress> ParseIngress(std::string_view text) {
  for (const Ingress ingress : {Ingress::kOpen, Ingress::kSameBridge, Ingress::kIsolated}) {
    if (text == Text(ingress)) {
      return ingress;
    }
  }
  return std::nullopt;
}

std::optional<nft::Element> FindAddress(nft::Socket& socket, const Ip& address) {
  return socket.FindElement(TableId(),
                            {.set = SetName(kAlloc, address.family()),
                             .key = AddressKey(address),
                             .data = {},
                             .comment = {}});
}

}  // namespace nomad_bridge::firewall
