#include "firewall/foreign_drops.h"

#include <algorithm>

#include "base/text.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

// Later than ours, at filter - 1, and none of those where our mark is accepted.
bool ComesAfterUs(const NftSocket::TableChain& each) {
  const std::optional<NftHook>& hook = each.chain.hook;
  const NftFamily family = each.table.family;
  const bool is_ours = each.table == TableId();
  const bool is_iptables = each.table.name == "filter" && each.chain.name == "FORWARD" &&
                           (family == NftFamily::kIp || family == NftFamily::kIp6);
  const bool is_ip =
      family == NftFamily::kInet || family == NftFamily::kIp || family == NftFamily::kIp6;
  return hook && hook->type == "filter" && hook->point == NftHook::Point::kForward &&
         hook->priority >= 0 && is_ip && !is_ours && !is_iptables;
}

// Without any match before it.
bool IsUnconditionalDrop(const NftKernelRule& rule) {
  std::vector<std::string> meaning = rule.expressions;
  std::erase_if(meaning, [](const std::string& text) { return text.starts_with("[ counter "); });
  return meaning.size() == 1 && (meaning.front().find(" drop ]") != std::string::npos ||
                                 meaning.front().starts_with("[ reject "));
}

}  // namespace

std::vector<std::string> ForeignDrops(NftSocket& socket) {
  std::vector<std::string> found;
  for (const NftSocket::TableChain& each : socket.Chains()) {
    if (!ComesAfterUs(each)) {
      continue;
    }
    const std::string name = Cat("chain ", each.chain.name, " of table ", Text(each.table));
    if (each.chain.hook->drops) {
      found.push_back(name + " (policy drop)");
      continue;
    }
    const std::vector<NftKernelRule> rules = socket.Rules(each.table, each.chain.name);
    if (!rules.empty() && IsUnconditionalDrop(rules.back())) {
      found.push_back(name + " (its last rule drops)");
    }
  }
  return found;
}

}  // namespace nomad_bridge::firewall
