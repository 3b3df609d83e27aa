// The compiled form of policies, which `policy apply` writes and each ADD reads from /run.
//
// Shapes  Lines of JSON, so that an ADD need parse only the first, and the policies that select its
//         allocation: with 200 policies, all of them would take as long as the rest of the ADD.
//           {"version": 1, "selectors": [["prod", "api", ""], ...], "peers": [...], ...}
//           {"name": "api", ..., "lists": {"office": "office-1c0e..."}}     of each policy
//           {"office-1c0e...": ["10.20.0.0/16", ...]}
//         `lists` maps the names in a policy to the names that steps use, which have a hash of the
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

struct Index {
  std::vector<Selector> selectors;  // of each policy, in their order
  std::vector<Selector> peers;      // that policies name, each once
  bool has_same_namespace = false;  // some policy names this peer
  bool closes_any = false;          // some policy with `to` is not audited
};

struct CompiledPolicy {
  Policy policy;  // without its selector, which the index has
  ListNames lists;
};

[[nodiscard]] std::string Write(const Policies& policies);
// Each reads a line.
[[nodiscard]] Index ReadIndex(std::string_view line);
[[nodiscard]] CompiledPolicy ReadPolicy(std::string_view line);
[[nodiscard]] Lists ReadLists(std::string_view line);

}  // namespace nomad_bridge::policy
