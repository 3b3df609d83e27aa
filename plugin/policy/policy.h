// Policies say who may talk to whom, by Nomad's labels. This is their form as plain values.
//
// Shapes  /etc/nomad-bridge/policy.d/*.json, each {"version": 1, "addresses": {...}, "policies":
//         [...]}, comments allowed. All files of the directory together are one set of policies, in
//         the order of the file names.
//         A policy with `to` applies to connections to the allocations that it selects, and refuses
//         all of them, except those that an `allow` of any such policy names. A policy with `from`
//         applies to connections from the allocations that it selects: `deny` refuses what it
//         names, `allow` refuses everything except what it names.
// Units   Ports are in host byte order, and are the allocation's own ports, not published ones.
// Errors  kInvalidConfig: msg is "FILE:LINE:COLUMN: ..." with key and value, details the allowed
//         values; kIo for a directory that cannot be read. If there is no directory, there are no
//         policies.
// Source  docs/policy.md
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.h"
#include "base/names.h"
#include "base/protocol.h"
#include "plugin/cni/labels.h"

namespace nomad_bridge::policy {

// Selects workloads by globs (glob.h). An empty job or group matches all. A job also matches
// through its parent: "etl" selects "etl/periodic-1700000000", too.
struct Selector {
  std::string nomad_namespace;
  std::string job;
  std::string group;

  auto operator<=>(const Selector&) const = default;
};
// Returns false for a workload without a namespace.
[[nodiscard]] bool Selects(const Selector& selector, const cni::Workload& workload);
// "namespace=prod job=lb"
[[nodiscard]] std::string Text(const Selector& selector);

// The other end of a connection.
struct Peer {
  enum class Kind {
    kSameNamespace,  // allocations in the namespace of the selected allocation
    kOutside,        // neither an allocation of ours on this node, nor the node
    kNode,
    kAny,
    kSelector,   // selected allocations on this node
    kAddresses,  // a list of addresses by its name, or one prefix as text
  };

  Kind kind = Kind::kAny;
  Selector selector;
  std::string addresses;

  auto operator<=>(const Peer&) const = default;
};
// The words for kinds that need no more.
inline constexpr Names<Peer::Kind, 4> kPeerWords = {{{Peer::Kind::kSameNamespace, "same-namespace"},
                                                     {Peer::Kind::kOutside, "outside"},
                                                     {Peer::Kind::kNode, "node"},
                                                     {Peer::Kind::kAny, "any"}}};

// A protocol and its ports: "tcp/8080", "tcp/9090-9199", "udp" with all ports; "icmp" is ICMP and
// ICMPv6, without ports.
struct Ports {
  Protocol protocol = Protocol::kTcp;
  std::uint16_t first = 0;
  std::uint16_t last = 65535;

  [[nodiscard]] bool AreAll() const { return first == 0 && last == 65535; }
  auto operator<=>(const Ports&) const = default;
};

// Returns nullopt for anything else, such as "tcp/0", "tcp/90-80" and "icmp/8".
[[nodiscard]] std::optional<Ports> FindPorts(std::string_view text);
[[nodiscard]] std::string Text(const Ports& ports);

// Matches every combination of its peers and ports; without ports, matches any protocol.
struct Entry {
  std::vector<Peer> peers;
  std::vector<Ports> ports;
};

enum class Direction { kTo, kFrom };

struct Policy {
  std::string name;  // unique; letters, digits, '-' and '_', at most 32
  Direction direction = Direction::kTo;
  Selector selector;
  bool only = false;        // for `to`: its allocations ignore policies without `only`
  bool is_audited = false;  // counts what it would refuse, and lets it pass
  bool drops = false;       // drops what it refuses; else the client is informed, and fails at once
  std::vector<Entry> allow;
  std::vector<Entry> deny;  // only with `from`
  bool is_closed = true;    // has `allow`; false if `from` has `deny` alone
};

// Returns all peers that its entries name.
[[nodiscard]] std::vector<const Peer*> PeersOf(const Policy& policy);

struct Policies {
  // Lists by name; a prefix that a peer names is a list under its own text. Sorted, merged, host
  // bits cleared.
  std::map<std::string, std::vector<Cidr>> addresses;
  std::vector<Policy> policies;
  bool are_named = false;  // some file has the key `policies`, even if the list is empty
};

// The usual `directory`. ReadPolicies() adds to `remarks` what is no error: an empty directory, a
// file that it leaves out, overlapping prefixes.
constexpr const char* kPolicyDirectory = "/etc/nomad-bridge/policy.d";
[[nodiscard]] Policies ReadPolicies(const std::string& directory,
                                    std::vector<std::string>& remarks);

}  // namespace nomad_bridge::policy
