// The filters of `list`: "ns=prod", "job=web*". A word without "=" is a filter for job=.
//
// Shapes   A filter has a key and a glob; addr= also takes a subnet. Filters with the same key are
//          alternatives; filters with different keys must all match.
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

// Returns "job= ns= group= ...", for messages.
[[nodiscard]] std::string FilterWords();

// By key: the globs, at least one of which must match.
using Filters = std::map<std::string, std::vector<std::string>, std::less<>>;

[[nodiscard]] Filters ParseFilters(const std::vector<std::string>& words);

// Returns the values of `key` for an attachment; an attachment may have several addresses and
// ports.
[[nodiscard]] std::vector<std::string> ValuesOf(const Attachment& attachment, std::string_view key);

[[nodiscard]] bool Matches(const Attachment& attachment, const Filters& filters);

// Returns whether a filter needs data that only records have. Without root, nobody can tell whether
// such a filter matches.
[[nodiscard]] bool AsksForUntold(const Filters& filters);

}  // namespace nomad_bridge::cli
