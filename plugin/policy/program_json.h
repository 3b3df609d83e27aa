// The compiled form of policies, which `policy apply` writes and each ADD reads from /run.
//
// Shapes  Two lines of JSON, so that an ADD need not parse long lists of prefixes:
//           {"version": 1, "policies": [...], "lists": {"office": "office-1c0e..."}}
//           {"office-1c0e...": ["10.20.0.0/16", ...]}
//         `lists` maps the names in policies to the names that steps use, which have a hash of the
//         prefixes.
// Errors  kDecode for a text that Write() has not written.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/policy/policy.h"

namespace nomad_bridge::policy {

// Maps names in Policies::addresses to the names that steps use.
using ListNames = std::map<std::string, std::string>;
using Lists = std::map<std::string, std::vector<Cidr>>;

struct Compiled {
  std::vector<Policy> policies;
  ListNames lists;
};

[[nodiscard]] std::string Write(const Policies& policies);
// Reads the first line.
[[nodiscard]] Compiled ReadCompiled(std::string_view text);
// Reads the second line.
[[nodiscard]] Lists ReadLists(std::string_view text);

}  // namespace nomad_bridge::policy
