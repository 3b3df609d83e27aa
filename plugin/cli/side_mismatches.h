// What is wrong with one attachment, in the order in which a packet to its published port meets it.
//
// Shapes   Each mismatch has its fix. The mismatches nearest to the cause come first.
//          host       the host's side against its record: bridge, veth, addresses, rules
//          path       the rest of the node: uplink, routes, neighbours, settings, others' rules
//          container  namespace, interface, routes, rules, and who listens on the published ports
//          notes      observations that are no faults: Nomad publishes every port for tcp and udp,
//                     and few services listen on both
//          ways       how far the first packet of a connection came, and its answer
// Order    Checks that send nothing come first; then each port is probed (causes/probe.h). If the
//          probes are answered, no fault on their way counts as the reason why a port does not
//          answer.
// Root     is needed for everything.
// Changes  nothing permanently. Skips the host's side if the attachment's lock is taken: a command
//          is working on it.
// Errors   kKernel
#pragma once

#include <string>
#include <vector>

#include "plugin/causes/cause.h"
#include "plugin/causes/way.h"
#include "plugin/cli/inventory.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

// The way of one connection that was probed.
struct NamedWay {
  std::string title;  // "tcp 8080", "tcp 10.0.0.1:22"
  causes::Way way;
};

struct SideMismatches {
  causes::Causes host;
  causes::Causes path;
  causes::Causes container;
  bool is_host_known = true;  // false: the comparison failed before its end
  bool is_container_known = true;
  std::vector<std::string> unknown;  // the errors of checks that failed, each once
  std::vector<std::string> notes;
  std::vector<NamedWay> ways;

  // Returns why a packet, or its answer, does not arrive; nullptr if no cause was found.
  [[nodiscard]] const causes::Cause* FindCause() const;
  [[nodiscard]] bool IsWell() const { return host.empty() && path.empty() && container.empty(); }
};

// The question about an attachment.
struct Question {
  std::string name;  // the name that was typed; if it is a port, only this port is in question
  std::optional<Ip> client;  // who gets no answer; nullopt: anyone beyond the node
  // The target that the attachment does not reach. With `client`, an address of the attachment
  // itself, which the client does not reach.
  struct Target {
    Protocol protocol = Protocol::kTcp;
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
