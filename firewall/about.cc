#include "firewall/about.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

constexpr const char* kBoot = "boot";
constexpr const char* kTables = "tables";
constexpr const char* kPolicies = "policies";
constexpr const char* kRules = "rules";

// A mark is a number in the host's byte order.
std::vector<std::uint8_t> MarkKey(std::uint32_t mark) {
  std::vector<std::uint8_t> key(sizeof mark);
  std::memcpy(key.data(), &mark, sizeof mark);
  return key;
}

// Returns the number of the only bit in `key`; nullopt if it has more bits, or none.
std::optional<int> BitIn(const std::vector<std::uint8_t>& key) {
  std::uint32_t mark = 0;
  if (key.size() != sizeof mark) {
    return std::nullopt;
  }
  std::memcpy(&mark, key.data(), sizeof mark);
  return std::has_single_bit(mark) ? std::optional(std::countr_zero(mark)) : std::nullopt;
}

}  // namespace

std::optional<About> FindAbout(nft::Socket& socket) {
  // A dump, because the key is not known.
  const std::vector<nft::Element> elements = socket.Elements(TableId(), kAbout);
  const std::optional<int> bit = elements.size() == 1 ? BitIn(elements[0].key) : std::nullopt;
  if (!bit) {
    return std::nullopt;
  }
  std::map<std::string, std::string> values;
  for (const std::string& field : SplitFields(elements[0].comment, " ")) {
    std::string_view value = field;
    std::string key(TakeUntil('=', value));
    values.emplace(std::move(key), value);
  }
  return About{.accept_mark_bit = *bit,
               .boot = values[kBoot],
               .tables_revision = values[kTables],
               .policy_revision = values[kPolicies],
               .rules = values[kRules]};
}

nft::Element ElementOf(const About& about) {
  std::string comment = Format("{}={} {}={}", kBoot, about.boot, kTables, about.tables_revision);
  if (!about.policy_revision.empty()) {
    comment += Format(" {}={}", kPolicies, about.policy_revision);
  }
  if (!about.rules.empty()) {
    comment += Format(" {}={}", kRules, about.rules);
  }
  return {.set = kAbout,
          .key = MarkKey(std::uint32_t{1} << about.accept_mark_bit),
          .comment = std::move(comment)};
}

std::string HashOfRules(nft::Socket& socket) {
  std::string hashes;
  for (const nft::TableFamily family : {nft::TableFamily::kInet, nft::TableFamily::kBridge}) {
    hashes += Cat(socket.HashOfRules(TableId(family)), ' ');
  }
  constexpr int kDigits = 16;
  return Hex(StableHash(hashes), kDigits);
}

}  // namespace nomad_bridge::firewall
