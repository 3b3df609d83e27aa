#include "plugin/shared_rules.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "firewall/members.h"
#include "firewall/table.h"
#include "plugin/living.h"

namespace nomad_bridge {
namespace {

constexpr std::string_view kNoPolicy = "- ";

// "nomad same-bridge ", "nomad - " without a firewall.
std::string PolicyOf(const Record& record) {
  return record.Has(Part::kForward) ? Cat(record.gate, ' ', firewall::Text(record.ingress), ' ')
                                    : Cat(record.gate, ' ', kNoPolicy);
}

bool IsAmong(const std::vector<NftElement>& elements, const NftElement& element) {
  return std::find(elements.begin(), elements.end(), element) != elements.end();
}

void Spare(const std::vector<NftElement>& needed, std::vector<NftElement>& retired) {
  std::erase_if(retired, [&](const NftElement& element) { return IsAmong(needed, element); });
}

// What an earlier ingressPolicy of the bridge of `record` put in, and this one does not want.
std::vector<NftElement> EarlierPolicy(Host& host, const Record& record) {
  if (!record.Has(Part::kForward) || record.gate.empty()) {
    return {};
  }
  std::vector<NftElement> elements = firewall::ElementsFor(record.ingress, record.gate).retired;
  std::erase_if(elements, [&](const NftElement& element) {
    return !host.nft.FindElement(firewall::TableId(), element);
  });
  return elements;
}

// All that says something of a bridge that is not there any more.
std::vector<NftElement> NamesOfGone(Host& host) {
  std::vector<NftElement> elements;
  for (const std::string& bridge : firewall::SharedBridges(host.nft)) {
    if (!host.net.FindLink(bridge)) {
      elements.push_back(firewall::BridgeElement(bridge));
      const std::vector<NftElement> policy =
          firewall::ElementsFor(firewall::Ingress::kOpen, bridge).retired;
      elements.insert(elements.end(), policy.begin(), policy.end());
    }
  }
  return elements;
}

}  // namespace

std::string HashOfShared(const Record& record, const std::vector<NftElement>& elements) {
  std::string text = Cat(record.policy.admin_chain, record.policy.ipv6 ? " ipv6" : "");
  for (const NftElement& element : elements) {
    if (element.comment.empty()) {
      text += Cat(' ', element.set, ' ', std::string(element.key.begin(), element.key.end()));
    }
  }
  return Cat(PolicyOf(record), Hex(StableHash(text), 16));
}

bool IsOfAnotherPolicy(const std::string& hash, const Record& record) {
  return record.Has(Part::kForward) && !record.gate.empty() &&
         hash.starts_with(Cat(record.gate, ' ')) &&
         !hash.starts_with(Cat(record.gate, ' ', kNoPolicy)) && !hash.starts_with(PolicyOf(record));
}

Outdated FindOutdated(Host& host, const Record& record) {
  const std::vector<NftElement> policy = EarlierPolicy(host, record);
  std::vector<NftElement> retired = NamesOfGone(host);
  retired.insert(retired.end(), policy.begin(), policy.end());
  if (retired.empty()) {
    return {};
  }
  for (const Record& other : LivingOthers(host, record.who)) {
    Spare(ElementsOf(other), retired);
  }
  const bool is_kept = std::any_of(policy.begin(), policy.end(), [&](const NftElement& element) {
    return !IsAmong(retired, element);
  });
  Spare(ElementsOf(record), retired);
  return {.retired = std::move(retired), .is_kept = is_kept};
}

}  // namespace nomad_bridge
