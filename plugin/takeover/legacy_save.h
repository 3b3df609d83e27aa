// What iptables-legacy-save prints, as iptables-legacy-restore reads it.
//
// Shapes   One rule per line, "-A CHAIN words...". A word with anything unusual in it stands in
//          double quotes, with a backslash before each quote and backslash in it; a line break
//          between quotes is part of the word. Comments, policies and table names are passed over.
// Source   iptables 1.8: xtables_save_string(), add_argv().
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nomad_bridge::takeover {

struct LegacyRule {
  std::string chain;
  std::vector<std::string> words;  // after the chain, without their quotes
  std::string text;                // "CHAIN words...", as printed: with "-D " before it, it is gone

  bool operator==(const LegacyRule&) const = default;
};

// Of one table, in their order.
[[nodiscard]] std::vector<LegacyRule> ParseLegacySave(std::string_view save);

}  // namespace nomad_bridge::takeover
