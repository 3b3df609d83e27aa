// Judges one new connection by walking the chains of a program as the kernel does.
//
// Source  docs/policy.md
#pragma once

#include <optional>
#include <string>

#include "base/ip.h"
#include "plugin/policy/program.h"

namespace nomad_bridge::policy {

// What the kernel has for the address of an end.
struct InForce : Judgement {
  bool is_here = false;  // the address of an allocation; else it counts as outside

  auto operator<=>(const InForce&) const = default;
};

// One end of a connection: an allocation of this node, the node itself, or any other address.
struct End {
  std::optional<cni::Workload> workload;
  std::optional<Ip> address;  // nullopt: an address that is in no list; of the node: not known
  bool is_node = false;
  std::optional<InForce> in_force;  // nullopt: what the policies have for the workload
};

struct Connection {
  End from;
  End to;
  Protocol protocol = Protocol::kTcp;
  std::uint16_t port = 0;  // of `to` itself; no meaning for ICMP
};

// The result of the policies that apply to one end.
struct Opinion {
  std::string by;  // the comment of the deciding step, "api#0"; empty: no policy judges it
  std::string would_be_refused_by;  // the same, for audited policies
};

struct Answer {
  bool is_allowed = true;
  // If either is set, the answer is not known. The kernel judges an end by a chain that the
  // policies do not have; or the answer depends on the node's address.
  std::string unknown_chain;
  bool needs_address = false;
  Opinion source;
  Opinion target;  // not filled in if the source's policies refuse the connection

  // Returns the rule that refuses, or else the last rule that lets pass; empty: no policy judges
  // it.
  [[nodiscard]] const std::string& By() const { return target.by.empty() ? source.by : target.by; }
  // Returns an empty string if the connection is refused.
  [[nodiscard]] std::string WouldBeRefusedBy() const {
    const Opinion& opinion = source.would_be_refused_by.empty() ? target : source;
    return is_allowed ? opinion.would_be_refused_by : "";
  }
};

[[nodiscard]] Answer Judge(const Program& program, const Connection& connection);

}  // namespace nomad_bridge::policy
