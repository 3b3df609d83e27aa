// The compiled form, as ADD reads it from /run each time: nothing is taken from it but the policies
// that select one workload.
//
// Shapes  lines with fields that tabs part, of which no value has any:
//           nomad-bridge-policy 1 <hash of the judged part> <its bytes> <bytes of the lists>
//         the judged part, which is all that an ADD needs:
//           list <name> <name in steps>      hash of its prefixes included
//           same-namespace                   if some peer is that
//           peer <namespace> <job> <group>   each selector that is a peer, once
//           policy <name> to|from <namespace> <job> <group> <only> <mode> <refusal> <is_closed>
//           allow|deny <ports> <peer>...     of the policy before it
//         and the lists: <name in steps> <prefix>...
// Errors  kDecode for what Write() has not written.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/policy/policy.h"

namespace nomad_bridge::policy {

// Its three fields.
[[nodiscard]] std::string SelectorText(const Selector& selector, char separator = '\t');
// The fields of an entry, "allow" or "deny" left out: what it says, for the names of its counters.
[[nodiscard]] std::string EntryText(const Entry& entry);

[[nodiscard]] std::string Write(const Policies& policies);

// The parts of a text, which has to outlive them.
struct Parts {
  std::string_view judged;
  std::string_view lists;
  std::string_view hash;  // of `judged`
};
[[nodiscard]] Parts Split(std::string_view text);
// Throws unless the judged part is what the first line has the hash of.
void RequireWhole(std::string_view text);

// By the name of Policies::addresses, that which steps have for it.
using ListNames = std::map<std::string_view, std::string_view>;

struct Selected {
  std::vector<Policy> policies;
  std::vector<Selector> peers;
  bool has_same_namespace = false;
  ListNames lists;  // all of them
};
// What selects `workload`; all of it if that is nullptr.
[[nodiscard]] Selected Select(std::string_view judged, const cni::Workload* workload);

[[nodiscard]] std::map<std::string, std::vector<Cidr>> ReadLists(std::string_view lists);

}  // namespace nomad_bridge::policy
