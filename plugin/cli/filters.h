// The filters of `list`: "ns=prod", "job=web*", or a job alone.
//
// Shapes   A glob for a key; for addr also a subnet. Repeated keys are alternatives; different keys
//          must all match.
// Errors   UsageError
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/cli/inventory.h"

namespace nomad_bridge::cli {

constexpr std::array<std::string_view, 9> kFilterKeys =
    {"job", "ns", "group", "alloc", "net", "port", "addr", "veth", "state"};

// "job= ns= group= ...", for people
[[nodiscard]] std::string FilterWords();

// The globs for each key; one of them has to match.
using Filters = std::map<std::string, std::vector<std::string>, std::less<>>;

[[nodiscard]] Filters ParseFilters(const std::vector<std::string>& words);

// Returns the values of `key` for an attachment; an attachment may have several addresses and
// ports.
[[nodiscard]] std::vector<std::string> ValuesOf(const Attachment& attachment, std::string_view key);

[[nodiscard]] bool Matches(const Attachment& attachment, const Filters& filters);

// Returns whether a filter needs what no alias holds: without root nobody can tell whether it
// matches.
[[nodiscard]] bool AsksForUntold(const Filters& filters);

}  // namespace nomad_bridge::cli
