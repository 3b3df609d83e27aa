// The state right after our last commit. From it a command decides how much of the ruleset it has
// to compare (rules/converge.h).
//
// Shape   /run/nomad-bridge/.checkpoint, one JSON object (state_json.h).
// Lives   on tmpfs; a checkpoint of another boot or host namespace counts as absent.
// Locks   Written under the rules' lock.
// Errors  kIo.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ip.h"
#include "plugin/cni/labels.h"

namespace nomad_bridge::state {

constexpr int kNoMarkBit = -1;

struct Checkpoint {
  std::uint32_t generation = 0;              // the ruleset's; the kernel skips 0
  std::vector<std::uint64_t> table_handles;  // of our tables
  std::vector<std::uint64_t> rules_hashes;   // of our tables' rules, as last compared
  std::string tables_revision;               // of the release that made the tables (rules/tables.h)
  std::string policy_revision;               // of the policies whose chains are in the kernel
  // Kinds of attachments whose chains are in the kernel (rules/policy_tables.h), each with a
  // workload of that kind.
  std::map<std::string, cni::Workload> policy_kinds;
  int accept_mark_bit = kNoMarkBit;
  // The operator's chains whose static rules are in table ip filter. The value says whether such
  // rules are in table ip6 filter, too.
  std::map<std::string, bool> admin_chains;
  // The index of each bridge whose ports are plugged in, by name.
  std::map<std::string, int> bridges;
  // The gateway addresses that each network last gave its bridge, by network.
  std::map<std::string, std::vector<Cidr>> gateways;
  // Interfaces that other firewalls accept (foreign/other_firewalls.h).
  std::vector<std::string> opened_ifnames;
  std::string legacy_filter;  // the state of iptables-legacy at that time (foreign/tools.h)
  // The node's addresses on which ports are or were published; nullopt: all addresses.
  std::vector<std::optional<Ip>> published_on;
  // An attachment has left a port that it wants, too, to another attachment of the same container.
  bool has_siblings = false;

  // Returns whether we have a table bridge nomad-bridge.
  [[nodiscard]] bool HasPortFilter() const { return table_handles.size() > 1; }

  // Makes the next command compare everything.
  void Expire() { tables_revision.clear(); }
};

}  // namespace nomad_bridge::state
