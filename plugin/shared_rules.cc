#include "plugin/shared_rules.h"

#include <algorithm>

#include "base/text.h"
#include "firewall/members.h"
#include "firewall/table.h"
#include "plugin/living.h"

namespace nomad_bridge {

std::string HashOfShared(const Record& record, const std::vector<NftElement>& elements) {
  std::string text = Cat(record.policy.admin_chain,
                         record.policy.ipv6 ? " ipv6 " : " ",
                         record.Has(Part::kForward) ? firewall::Text(record.ingress) : "");
  for (const NftElement& element : elements) {
    if (element.comment.empty()) {
      text += Cat(' ', element.set, ' ', std::string(element.key.begin(), element.key.end()));
    }
  }
  return Hex(StableHash(text), 16);
}

OldIngress FindOldIngress(Host& host, const Record& record) {
  if (!record.Has(Part::kForward) || record.gate.empty()) {
    return {};
  }
  OldIngress old{.retired = firewall::ElementsFor(record.ingress, record.gate).retired};
  std::erase_if(old.retired, [&](const NftElement& element) {
    return !host.nft.FindElement(firewall::TableId(), element);
  });
  if (old.retired.empty()) {
    return old;
  }
  for (const Record& other : LivingOthers(host, record.who)) {
    const std::vector<NftElement> needed = ElementsOf(other);
    const std::size_t kept = std::erase_if(old.retired, [&](const NftElement& element) {
      return std::find(needed.begin(), needed.end(), element) != needed.end();
    });
    old.is_kept = old.is_kept || kept > 0;
  }
  return old;
}

}  // namespace nomad_bridge
