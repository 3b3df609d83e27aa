// What is wrong with one attachment, in the order in which a packet to its published port meets it.
//
// Shapes   each with what puts it right; the first one nearest to the cause; empty: nothing found
//          host       the host's side against its record: bridge, veth, addresses, rules
//          path       the rest of the node: uplink, routes, neighbours, settings, others' rules
//          container  namespace, interface, routes, rules, and who listens on the published ports
//          notes      what is no fault: Nomad publishes every port for tcp and udp, and few
//                     services listen on both
// Root     is needed for all of it.
// Changes  nothing. The attachment's lock is tried: one that a command works on is not compared.
// Errors   kKernel
#pragma once

#include <string>
#include <vector>

#include "plugin/causes/journey.h"
#include "plugin/cli/inventory.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

struct SideMismatches {
  causes::Causes host;
  causes::Causes path;
  causes::Causes container;
  bool is_host_known = true;  // false: looking at it ended early
  bool is_container_known = true;
  std::vector<std::string> unknown;  // what could not be looked at, and why: each once
  std::vector<std::string> notes;

  // Why a packet does not arrive, or its answer does not; nullptr if that was not found.
  [[nodiscard]] const causes::Cause* FindCause() const;
  [[nodiscard]] bool IsWell() const { return host.empty() && path.empty() && container.empty(); }
};

// `client`: who finds that a port does not answer; nullopt: anyone. `name`: what the attachment was
// asked for by; if that is a port, it comes first, and causes are its alone.
[[nodiscard]] SideMismatches FindSideMismatches(state::Host& host,
                                                const Attachment& attachment,
                                                const std::optional<Ip>& client,
                                                const std::string& name);

}  // namespace nomad_bridge::cli
