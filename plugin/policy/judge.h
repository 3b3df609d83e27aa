// What the rules of a program make of one new connection, by walking its chains as the kernel does.
//
// Source  docs/policy.md
#pragma once

#include <optional>
#include <string>

#include "base/ip.h"
#include "plugin/policy/program.h"

namespace nomad_bridge::policy {

// One end of a connection: an allocation of this node, the node itself, or any other address.
struct End {
  std::optional<cni::Workload> workload;
  std::optional<Ip> address;  // nullopt: one that is in no list
  bool is_node = false;
};

struct Connection {
  End from;
  End to;
  Ports::Protocol protocol = Ports::Protocol::kTcp;
  std::uint16_t port = 0;  // that of `to` itself; without meaning for ICMP
};

struct Answer {
  bool is_allowed = true;
  std::string by;  // the comment of the step that decided: "api#0"; empty: nothing judges it
  std::string would_be_refused_by;  // of audited policies
};

[[nodiscard]] Answer Judge(const Program& program, const Connection& connection);

}  // namespace nomad_bridge::policy
