// The attachments that the reference plugins made and that still run, for people.
//
// Found    by the kernel: a veth of another plugin leads to a namespace, an interface there has an
//          address, and the address has a lease of that interface in a usual directory. The ports
//          come from the rules of iptables-nft or nftables; iptables-legacy's are not read. Leaves
//          out what is in a namespace that we may not enter.
// Costs    nothing but the list of links if there is no such veth; else a look into each namespace.
// Errors   kKernel
#pragma once

#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/host.h"
#include "portmap/mapping.h"

namespace nomad_bridge::takeover {

struct RunningAttachment {
  AttachmentId id;
  std::vector<Cidr> addresses;
  std::vector<portmap::DnatEntry> ports;
  std::string netns_path;
  rtnl::Link host_veth;
};

// Returns those of `links`, all links of the node, that may lead to such an attachment.
[[nodiscard]] std::vector<rtnl::Link> ForeignVeths(const std::vector<rtnl::Link>& links);

[[nodiscard]] std::vector<RunningAttachment> FindRunning(state::Host& host,
                                                         const std::vector<rtnl::Link>& links);

}  // namespace nomad_bridge::takeover
