// What was in force right after our last commit, by which a command knows how much of the ruleset
// it has to compare (rules/converge.h).
//
// Shape   /run/nomad-bridge/.checkpoint, one JSON object (state_json.h).
// Lives   on tmpfs; one of another boot or host namespace counts as absent.
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
  std::uint32_t generation = 0;              // of the ruleset; the kernel leaves out 0
  std::vector<std::uint64_t> table_handles;  // of our tables
  std::vector<std::uint64_t> rules_hashes;   // of their rules, when they were compared last
  std::string tables_revision;               // of the binary that made them (rules/tables.h)
  std::string policy_revision;               // of the policies whose chains are there
  // What an attachment has by them (rules/policy_tables.h), and a workload of that kind.
  std::map<std::string, cni::Workload> policy_kinds;
  int accept_mark_bit = kNoMarkBit;
  // Whose static rules are in table ip filter, and whether they are in ip6 filter, too.
  std::map<std::string, bool> admin_chains;
  // By name, the index of the bridge whose ports are plugged in.
  std::map<std::string, int> bridges;
  // By network: the gateway addresses it gave its bridge last.
  std::map<std::string, std::vector<Cidr>> gateways;
  // Which other firewalls accept (foreign/other_firewalls.h).
  std::vector<std::string> opened_ifnames;
  std::string legacy_filter;  // the state of iptables-legacy then (foreign/tools.h)
  // Where ports are, or were, published: on which addresses of the node; nullopt: on all of them.
  std::vector<std::optional<Ip>> published_on;
  // Some attachment has left ports to another one of its container.
  bool has_siblings = false;

  // Whether table bridge nomad-bridge is one of ours.
  [[nodiscard]] bool HasPortFilter() const { return table_handles.size() > 1; }

  // The next command compares everything.
  void Expire() { tables_revision.clear(); }
};

}  // namespace nomad_bridge::state
