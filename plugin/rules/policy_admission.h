// Which new connections policies judge: base chains that lead from an allocation's address to the
// chain of its policies (policy_tables.h).
//
// Source  docs/rules.md
#pragma once

#include <string_view>

#include "firewall/contributor.h"

namespace nomad_bridge::rules {

// Names without the digit of their family. Maps: the chain of what reaches an address, and of what
// it sends.
constexpr std::string_view kPolicyIn = "in";
constexpr std::string_view kPolicyOut = "out";
// What the names of sets made for policies begin with: the allocations that a selector selects, and
// a list of prefixes.
constexpr std::string_view kSelected = "sel";
constexpr std::string_view kPrefixes = "adr";

// The chain that new connections pass.
constexpr const char* kJudge = "judge";
// The chain that tells the client of a refusal.
constexpr const char* kRefuse = "refuse";

// The base chains, which judge new connections alone, and the maps.
extern const firewall::Contributor kPolicy;

// What sets made for policies look like, under the noun that their name begins with.
extern const firewall::Contributor kPolicySetShapes;

}  // namespace nomad_bridge::rules
