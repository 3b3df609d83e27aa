// Everything that a test could leave behind, as one value: before == after.
//
// Holds    For every node: links (name, kind, master, MAC, MTU, alias, up, promiscuous), addresses,
//          routes of all tables, rules, the nf_tables ruleset, the sysctls that we change. For the
//          machine: the files of our state directories.
// Leaves out  Values that change by themselves: indices, handles, counters, dropped packets,
//             carrier, timers, lifetimes. What the kernel creates for every link: link-local
//             addresses; local, link-local and multicast routes. "lock" files,
//             last_reserved_ip.<n>, .gateways, .leases and .opened, which are memory, not state.
//             The hash in the description of our tables, which a later command adds.
#pragma once

#include "tests/support/node.h"

namespace nomad_bridge::test {

// Returns what nft lists without that hash: " rules=<hash>".
[[nodiscard]] std::string WithoutHash(std::string ruleset);

class Snapshot {
 public:
  void AddNode(const Node& node);
  // Adds every file below `directory`, with its content. Ignores the order of keys in JSON.
  void AddDirectory(const std::string& directory);

  // Returns only the facts whose name begins with one of these: "host ", "file ".
  [[nodiscard]] Snapshot Of(const std::vector<std::string>& beginnings) const;

  bool operator==(const Snapshot&) const = default;

  // One line per fact that only one of the two has, or that differs; empty if they
  // are equal.
  [[nodiscard]] static std::string Difference(const Snapshot& before, const Snapshot& after);
  // The facts whose name contains `part`, one per line: for assertions on a piece of it and for
  // messages.
  [[nodiscard]] std::string Lines(const std::string& part = "") const;

 private:
  void AddLinks(const Node& node);
  void AddRoutes(const Node& node);
  void AddRuleset(const Node& node);
  void AddSysctls(const Node& node);

  std::map<std::string, std::string> facts_;
};

// EXPECT_TRUE(Unchanged(before, after)) << "...": on failure prints what differs.
[[nodiscard]] ::testing::AssertionResult Unchanged(const Snapshot& before, const Snapshot& after);

std::ostream& operator<<(std::ostream& stream, const Snapshot& snapshot);

}  // namespace nomad_bridge::test
