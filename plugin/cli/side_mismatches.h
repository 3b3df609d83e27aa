// What is wrong with one attachment, in the order in which a packet to its published port meets it.
//
// Shapes   each with what puts it right; the first one nearest to the cause; empty: nothing found
//          host       the host's side against its record: bridge, veth, addresses, rules
//          path       the rest of the node: uplink, routes, neighbours, settings, others' rules
//          container  namespace, interface, routes, rules, and who listens on the published ports
//          notes      what is no fault: Nomad publishes every port for tcp and udp, and few
//                     services listen on both
//          ways       how far the first packet of a connection came, and its answer
// Order    What can be seen without sending anything comes first; then each port is probed
//          (causes/probe.h). What the probe has found answered is not why a port does not answer.
// Root     is needed for all of it.
// Changes  nothing that stays. The attachment's lock is tried: one that a command works on is not
//          compared.
// Errors   kKernel
#pragma once

#include <string>
#include <vector>

#include "plugin/causes/cause.h"
#include "plugin/causes/way.h"
#include "plugin/cli/inventory.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

// The connection in question, or one of several.
struct NamedWay {
  std::string title;  // "tcp 8080", "tcp 10.0.0.1:22"
  causes::Way way;
};

struct SideMismatches {
  causes::Causes host;
  causes::Causes path;
  causes::Causes container;
  bool is_host_known = true;  // false: looking at it ended early
  bool is_container_known = true;
  std::vector<std::string> unknown;  // what could not be looked at, and why: each once
  std::vector<std::string> notes;
  std::vector<NamedWay> ways;

  // Returns why a packet, or its answer, does not arrive; nullptr if no cause was found.
  [[nodiscard]] const causes::Cause* FindCause() const;
  [[nodiscard]] bool IsWell() const { return host.empty() && path.empty() && container.empty(); }
};

// The question about an attachment.
struct Question {
  std::string name;  // the name that was typed; if it is a port, only this port is in question
  std::optional<Ip> client;  // who gets no answer; nullopt: anyone
  // What the attachment does not reach. With `client`, an address of the attachment itself.
  struct Target {
    portmap::Protocol protocol = portmap::Protocol::kTcp;
    Ip address;
    std::uint16_t port = 0;
  };
  std::optional<Target> to;
  bool probes = true;
};

[[nodiscard]] SideMismatches FindSideMismatches(state::Host& host,
                                                const Attachment& attachment,
                                                const Question& question);

}  // namespace nomad_bridge::cli
