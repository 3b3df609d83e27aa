// What is wrong with one attachment, for `inspect`: our own side of the node, the container, what
// the kernel does with a connection (causes/probe.h), and what a probe cannot see.
//
// Shapes   Findings in the order of the checks; FindCause() goes by section. Those about a
//          connection that was answered have `ends` false, unless they are beyond the probe.
// Root     is needed for everything.
// Changes  nothing permanently. Skips our side if the attachment's lock is taken: a command is
//          working on it.
// Errors   kKernel
#pragma once

#include <optional>
#include <string>

#include "plugin/cli/inspected.h"
#include "plugin/cli/inventory.h"
#include "plugin/cli/target.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

// The question about an attachment.
struct Question {
  std::string name;  // the name that was typed; if it is a port, only this port is in question
  std::optional<Ip> client;      // who gets no answer; nullopt: anyone beyond the node
  std::string client_link = {};  // the link by which its packets come in; empty: not known
  // The target that the attachment does not reach. With `client`, an address of the attachment
  // itself, which the client does not reach.
  std::optional<Target> to;
  bool probes = true;
};

[[nodiscard]] Inspected Inspect(state::Host& host,
                                const Attachment& attachment,
                                const Question& question);

}  // namespace nomad_bridge::cli
