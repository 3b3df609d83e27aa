// Shows what the kernel does with the first packet of a connection, and with its answer: sends it
// once, and watches it on the node and in the containers at both ends.
//
// Sent     A packet from beyond the node is sent so that the kernel takes it for a packet that the
//          uplink has received. A packet of the node or of an allocation is sent in its own
//          namespace.
// Caught   No packet leaves the node, no service accepts a connection, and a datagram does not
//          reach its service. A datagram for a sandbox or a virtual machine (link/frame_reader.h)
//          is caught where it leaves the node: the container's own hooks would not see it.
// Leaves   nothing, even if this process is killed: the markers go with the process, the child of
//          netlink/probe/cleanup.h or the kernel resets the half-open connection, and the child
//          removes what conntrack and a bridge have learnt.
// Others   Policies neither count nor note a probe (rules/policy_admission.h). It has a source port
//          that no connection has, and a bridge learns nothing wrong from it.
// Limits   SCTP is not probed, and the answers of datagrams are not.
// Errors   kKernel: BPF or the trace is forbidden
#pragma once

#include "plugin/causes/connection.h"
#include "plugin/causes/node_facts.h"
#include "plugin/causes/trail.h"

namespace nomad_bridge::causes {

// REQUIRES: the connection's protocol is TCP or UDP.
[[nodiscard]] Trail Probe(NodeFacts& facts, const Connection& connection);

}  // namespace nomad_bridge::causes
