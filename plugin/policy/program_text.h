// The compiled form of policies. Each ADD reads it from /run, and takes only the policies that
// select its workload.
//
// Shapes  Lines with fields separated by tabs, which no value contains:
//           nomad-bridge-policy 1 <hash of the judged part> <its bytes> <bytes of the lists>
//         the judged part, which is all that an ADD needs:
//           list <name> <name in steps>      hash of its prefixes included
//           same-namespace                   if some peer is that
//           peer <namespace> <job> <group>   each selector that is a peer, once
//           policy <name> to|from <namespace> <job> <group> <only> <mode> <refusal> <is_closed>
//           allow|deny <ports> <peer>...     of the policy before it
//         and the lists: <name in steps> <prefix>...
// Errors  kDecode for a text that Write() has not written.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/policy/policy.h"

namespace nomad_bridge::policy {

// Returns the three fields of `selector`.
[[nodiscard]] std::string SelectorText(const Selector& selector, char separator = '\t');
// Returns the fields of an entry without "allow" or "deny"; names of counters contain their hash.
[[nodiscard]] std::string EntryText(const Entry& entry);

[[nodiscard]] std::string Write(const Policies& policies);

// The parts of a text. The text must outlive them.
struct Parts {
  std::string_view judged;
  std::string_view lists;
  std::string_view hash;  // of `judged`
};
[[nodiscard]] Parts Split(std::string_view text);
// Throws unless the hash in the first line matches the judged part.
void RequireWhole(std::string_view text);

// Maps names in Policies::addresses to the names that steps use.
using ListNames = std::map<std::string_view, std::string_view>;

struct Selected {
  std::vector<Policy> policies;
  std::vector<Selector> peers;
  bool has_same_namespace = false;
  ListNames lists;  // all of them
};
// Returns the policies that select `workload`; all policies if it is nullptr.
[[nodiscard]] Selected Select(std::string_view judged, const cni::Workload* workload);

[[nodiscard]] std::map<std::string, std::vector<Cidr>> ReadLists(std::string_view lists);

}  // namespace nomad_bridge::policy
