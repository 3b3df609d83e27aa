// What the kernel does with the first packet of a connection, and with its answer: sent once, and
// watched on the node and in the containers at both ends.
//
// Sent     A packet from beyond the node is one that the kernel takes for received by the uplink. A
//          packet of the node or of an allocation is one that its own namespace sends.
// Caught   Nothing of it leaves the node, no service accepts a connection, and a datagram does not
//          reach its service. A datagram for a sandbox or a virtual machine (link/frame_reader.h)
//          is caught where it leaves the node: the container's own hooks would not see it.
// Leaves   nothing, also if this process is killed: the half-open connection is reset by a child
//          (netlink/probe/pending_reset.h) or by the kernel, and the markers go with the process.
//          Only an entry of conntrack stays then, for 10 seconds.
// Limits   SCTP is not probed. Answers of datagrams are not.
// Errors   kKernel: BPF or the trace is forbidden
#pragma once

#include "plugin/causes/connection.h"
#include "plugin/causes/node_facts.h"
#include "plugin/causes/trail.h"

namespace nomad_bridge::causes {

// REQUIRES: the connection's protocol is TCP or UDP.
[[nodiscard]] Trail Probe(NodeFacts& facts, const Connection& connection);

}  // namespace nomad_bridge::causes
