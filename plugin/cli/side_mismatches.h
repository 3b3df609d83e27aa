// What is wrong with one attachment, in the order in which a packet to its published port meets it.
//
// Shapes   one line each, the first one nearest to the cause; empty: nothing found
//          host       the host's side against its record: bridge, veth, addresses, rules
//          path       chains of other programs behind ours that drop
//          container  namespace, interface, routes, and who listens on the ports that are published
//          notes      what is no fault: Nomad publishes every port for tcp and udp, and few services
//                     listen on both
// Root     is needed for all of it.
// Changes  nothing. The attachment's lock is tried: one that a command works on is not compared.
// Errors   kKernel
#pragma once

#include <string>
#include <vector>

#include "plugin/cli/inventory.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

struct SideMismatches {
  std::vector<std::string> host;
  std::vector<std::string> path;
  std::vector<std::string> container;
  std::vector<std::string> notes;

  // Why a packet does not arrive, or its answer does not; nullptr if nothing was found.
  [[nodiscard]] const std::string* FindCause() const;
};

[[nodiscard]] SideMismatches FindSideMismatches(state::Host& host, const Attachment& attachment);

}  // namespace nomad_bridge::cli
