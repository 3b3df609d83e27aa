// What was in force right after our last commit. As long as the ruleset's generation is still the
// checkpoint's, nobody has changed a rule since, and nothing needs to be looked at. When it is not,
// our table is compared, at a cost that does not depend on the number of attachments; only if that
// is another than the checkpoint's, or was made by another release, all attachments are.
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
#include "netlink/rtnl/rtnl.h"
#include "plugin/cni/labels.h"

namespace nomad_bridge::state {

constexpr int kNoMarkBit = -1;

struct Checkpoint {
  std::uint32_t generation = 0;              // the kernel's own leave out 0
  std::vector<std::uint64_t> table_handles;  // of our tables
  // Which attachments' elements are in force; nullopt once others may have changed some
  // (rules/intact.h).
  std::optional<std::uint64_t> intact;
  bool has_port_filter = false;  // that of the bridge family is one of them
  std::string tables_revision;   // of the binary that made them (rules/tables.h)
  std::string policy_revision;   // of the policies whose chains are there
  // What an attachment has by them (rules/policy_tables.h), and a workload of that kind.
  std::map<std::string, cni::Workload> policy_kinds;
  int accept_mark_bit = kNoMarkBit;
  std::vector<std::string> admin_chains;       // whose static rules are in table ip filter
  std::vector<std::string> admin_chains_ipv6;  // and ip6 filter
  struct Bridge {
    int index = 0;      // of the one whose ports have been repaired
    bool made = false;  // by us
    // As the last reconcile saw them, and what somebody else's has lost since (link/lan.h).
    std::set<std::string> uplinks;
    std::vector<Cidr> addresses;

    bool operator==(const Bridge&) const = default;
  };
  std::map<std::string, Bridge> bridges;  // by name
  // By bridge, where policies have turned flags on: as they were before.
  std::map<std::string, rtnl::NfCall> nf_call_before;
  std::vector<std::string>
      opened_ifnames;         // accepted by other firewalls (foreign/other_firewalls.h)
  std::string legacy_filter;  // the state of iptables-legacy then (foreign/tools.h)
  // Where ports are, or were, published: on which addresses of the node; nullopt: on all of them.
  std::vector<std::optional<Ip>> published_on;
  std::vector<std::string> foreign_drops;  // chains of others that drop what we accept, for people
  std::string foreign_basis;               // of these (foreign/other_firewalls.h)
  // Of the host's side when all of it was found right (attachment/fingerprint.h).
  std::string fingerprint;
  std::set<std::string> data_dirs;  // where attachments had their leases then
  std::set<std::string> segments;   // and their bridges and VLAN gateways
  std::set<std::string> renewable;  // "eth0 /run/netns/a": whose addresses another IPAM may change
  // Some attachment has left ports to another one of its container.
  bool has_siblings = false;

  // The next command compares all attachments.
  void Expire() { tables_revision.clear(); }
};

}  // namespace nomad_bridge::state
