#include "firewall/foreign_drops.h"

#include <algorithm>
#include <cstdint>

#include "base/text.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

// Ours is at priority -1; iptables' FORWARD has the static rules, and firewalld its zones.
bool ComesAfterUs(const nft::Socket::TableChain& each) {
  const std::optional<nft::Hook>& hook = each.chain.hook;
  const nft::TableFamily family = each.table.family;
  const bool is_ours = each.table == TableId();
  const bool is_iptables = each.table.name == "filter" && each.chain.name == "FORWARD" &&
                           (family == nft::TableFamily::kIp || family == nft::TableFamily::kIp6);
  const bool is_firewalld = family == nft::TableFamily::kInet && each.table.name == "firewalld";
  const bool is_ip = family == nft::TableFamily::kInet || family == nft::TableFamily::kIp ||
                     family == nft::TableFamily::kIp6;
  return hook && hook->type == "filter" && hook->point == nft::Hook::Point::kForward &&
         hook->priority >= 0 && is_ip && !is_ours && !is_iptables && !is_firewalld;
}

bool IsUnconditionalDrop(const nft::KernelRule& rule) {
  const std::vector<std::string> meaning = nft::Meaning(rule.expressions);
  return meaning.size() == 1 && (meaning.front().find(" drop ]") != std::string::npos ||
                                 meaning.front().starts_with("[ reject "));
}

// meta mark & 0x1000 == 0x1000 accept: what we tell operators to add.
bool IsAcceptOf(std::uint32_t mark, const nft::KernelRule& rule) {
  const std::vector<std::string> meaning = nft::Meaning(rule.expressions);
  const std::string bits = Cat("0x", Hex(mark, 8));
  return meaning.size() == 4 && meaning[0].starts_with("[ meta load mark ") &&
         meaning[1].find(Cat("& ", bits)) != std::string::npos &&
         meaning[2].find(bits) != std::string::npos &&
         meaning[3].find(" accept ]") != std::string::npos;
}

}  // namespace

std::vector<std::string> ForeignDrops(nft::Socket& socket, int accept_mark_bit) {
  const std::uint32_t mark = std::uint32_t{1} << accept_mark_bit;
  std::vector<std::string> found;
  for (const nft::Socket::TableChain& each : socket.Chains()) {
    if (!ComesAfterUs(each)) {
      continue;
    }
    const std::string name = Format("chain {} of table {}", each.chain.name, nft::Text(each.table));
    const std::vector<nft::KernelRule> rules = socket.Rules(each.table, each.chain.name);
    if (std::ranges::any_of(rules,
                            [&](const nft::KernelRule& rule) { return IsAcceptOf(mark, rule); })) {
      continue;
    }
    if (each.chain.hook->drops) {
      found.push_back(name + " (policy drop)");
    } else if (!rules.empty() && IsUnconditionalDrop(rules.back())) {
      found.push_back(name + " (its last rule drops)");
    }
  }
  return found;
}

}  // namespace nomad_bridge::firewall
