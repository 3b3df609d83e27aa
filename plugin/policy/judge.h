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

// What the policies that are about one end make of it.
struct Opinion {
  std::string by;  // the comment of the step that decided: "api#0"; empty: nothing judges it
  std::string would_be_refused_by;  // of audited policies
};

struct Answer {
  bool is_allowed = true;
  Opinion source;
  Opinion target;  // not asked for if the source's policies refuse it

  // The rule that refuses it, or else the last that lets it pass; empty: nothing judges it.
  [[nodiscard]] const std::string& By() const { return target.by.empty() ? source.by : target.by; }
  // Empty if it is refused.
  [[nodiscard]] std::string WouldBeRefusedBy() const {
    const Opinion& opinion = source.would_be_refused_by.empty() ? target : source;
    return is_allowed ? opinion.would_be_refused_by : "";
  }
};

[[nodiscard]] Answer Judge(const Program& program, const Connection& connection);

}  // namespace nomad_bridge::policy
