#include "firewall/members.h"

#include <algorithm>
#include <utility>

#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

std::vector<std::uint8_t> NameKey(const std::string& link) {
  std::vector<std::uint8_t> name(PaddedBytes(NftType::kIfname));
  std::copy_n(link.begin(), std::min(link.size(), name.size()), name.begin());
  return name;
}

NftElement Shared(const char* set, std::vector<std::uint8_t> key) {
  return {.set = set, .key = std::move(key), .data = {}, .comment = {}};
}

}  // namespace

std::vector<NftElement> Elements(const std::vector<Member>& members, const std::string& comment) {
  std::vector<NftElement> elements;
  for (const Member& member : members) {
    const auto add = [&](std::string_view noun) {
      elements.push_back({.set = SetName(noun, member.address.family()),
                          .key = AddressKey(member.address),
                          .data = {},
                          .comment = comment});
    };
    if (member.forward) {
      add(kAlloc);
    }
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
  return Shared(kBridges, NameKey(bridge));
}

std::vector<std::string> SharedBridges(NftSocket& socket) {
  std::vector<std::string> names;
  for (const NftElement& element : socket.Elements(TableId(), kBridges)) {
    if (element.comment.empty()) {
      names.emplace_back(element.key.begin(), std::find(element.key.begin(), element.key.end(), 0));
    }
  }
  return names;
}

IngressElements ElementsFor(Ingress ingress, const std::string& bridge) {
  std::vector<std::uint8_t> pair = NameKey(bridge);
  const std::vector<std::uint8_t> again = pair;
  pair.insert(pair.end(), again.begin(), again.end());
  const NftElement guarded = Shared(kGuarded, again);
  const NftElement within = Shared(kWithin, std::move(pair));
  switch (ingress) {
    case Ingress::kOpen:
      return {.wanted = {}, .retired = {guarded, within}};
    case Ingress::kSameBridge:
      return {.wanted = {guarded, within}, .retired = {}};
    case Ingress::kIsolated:
      return {.wanted = {guarded}, .retired = {within}};
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

std::optional<NftElement> FindMember(NftSocket& socket, const Ip& address) {
  return socket.FindElement(TableId(),
                            {.set = SetName(kAlloc, address.family()),
                             .key = AddressKey(address),
                             .data = {},
                             .comment = {}});
}

}  // namespace nomad_bridge::firewall
