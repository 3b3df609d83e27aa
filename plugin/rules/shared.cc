#include "plugin/rules/shared.h"

#include <algorithm>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "firewall/address_policy.h"
#include "firewall/table.h"
#include "plugin/rules/elements.h"

namespace nomad_bridge::rules {
namespace {

constexpr std::string_view kNoPolicy = "- ";

// "nomad same-bridge ", "nomad - " without a firewall.
std::string IngressKey(const state::Record& record) {
  return record.Has(cni::Part::kForward)
             ? Cat(record.link.gateway_ifname, ' ', firewall::Text(record.rules.ingress), ' ')
             : Cat(record.link.gateway_ifname, ' ', kNoPolicy);
}

// Takes those that are needed out of `stale`.
void Retain(const std::vector<nft::Element>& needed, std::vector<nft::Element>& stale) {
  std::erase_if(stale, [&](const nft::Element& element) { return Contains(needed, element); });
}

// Elements of an earlier ingressPolicy of the bridge of `record` that its own must not have.
std::vector<nft::Element> EarlierPolicy(state::Host& host, const state::Record& record) {
  if (!record.Has(cni::Part::kForward) || record.link.gateway_ifname.empty()) {
    return {};
  }
  std::vector<nft::Element> elements =
      firewall::ElementsFor(record.rules.ingress, record.link.gateway_ifname).remove;
  std::erase_if(elements, [&](const nft::Element& element) {
    return !host.nft.FindElement(firewall::TableId(), element);
  });
  return elements;
}

std::vector<nft::Element> ElementsOfMissingBridges(state::Host& host) {
  std::vector<nft::Element> elements;
  for (const std::string& bridge : firewall::SharedBridges(host.nft)) {
    if (!host.net.FindLink(bridge)) {
      elements.push_back(firewall::BridgeElement(bridge));
      Append(elements, firewall::ElementsFor(firewall::Ingress::kOpen, bridge).remove);
    }
  }
  return elements;
}

}  // namespace

std::string HashOfShared(const state::Record& record, const std::vector<nft::Element>& elements) {
  std::string text =
      Cat(record.rules.forward_hook.admin_chain, record.rules.forward_hook.ipv6 ? " ipv6" : "");
  for (const nft::Element& element : elements) {
    if (element.comment.empty()) {
      text += Cat(' ', element.set, ' ', std::string(element.key.begin(), element.key.end()));
    }
  }
  return Cat(IngressKey(record), Hex(StableHash(text), 16));
}

bool IsOfAnotherPolicy(const std::string& hash, const state::Record& record) {
  return record.Has(cni::Part::kForward) && !record.link.gateway_ifname.empty() &&
         hash.starts_with(Cat(record.link.gateway_ifname, ' ')) &&
         !hash.starts_with(Cat(record.link.gateway_ifname, ' ', kNoPolicy)) &&
         !hash.starts_with(IngressKey(record));
}

StaleShared FindStaleShared(state::Host& host,
                            const state::Record& record,
                            link::LiveAttachments& others) {
  const std::vector<nft::Element> earlier = EarlierPolicy(host, record);
  std::vector<nft::Element> stale = ElementsOfMissingBridges(host);
  Append(stale, earlier);
  if (stale.empty()) {
    return {};
  }
  for (const state::Record& other : others.records()) {
    Retain(ElementsOf(other), stale);
  }
  const bool is_kept = std::ranges::any_of(
      earlier, [&](const nft::Element& element) { return !Contains(stale, element); });
  Retain(ElementsOf(record), stale);
  return {.elements = std::move(stale), .is_kept = is_kept};
}

}  // namespace nomad_bridge::rules
