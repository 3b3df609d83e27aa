// The veth pair of an attachment, managed through its host end: finds it, creates it, plugs it into
// the bridge, deletes it.
//
// Ours     A link is ours if it has the name derived from the attachment and the attachment's alias
//          (kernel_names.h).
// Errors   kConflict if the container has another interface of the attachment's name; kKernel.
// Locks    The caller holds the attachment's lock.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/finding.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/link/container.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

// Whether the attachment has a record. The kernel sets a link's alias one message after it creates
// the link. If we are killed in between, only the record shows that a veth of that name is ours.
enum class Recorded { kNo, kYes };

// Returns whether `link`, which has the name derived from `id`, is ours.
[[nodiscard]] bool IsHostVethOf(const rtnl::Link& link, const AttachmentId& id, Recorded recorded);

// Returns the host end of `id` if it exists and is ours.
[[nodiscard]] std::optional<rtnl::Link> FindHostVeth(rtnl::Socket& host,
                                                     const AttachmentId& id,
                                                     Recorded recorded);

// Looks up the host ends of many attachments in one list of all links of the node. Links that were
// created after the list are missing.
class ListedVeths {
 public:
  explicit ListedVeths(const std::vector<rtnl::Link>& links);

  [[nodiscard]] std::optional<rtnl::Link> Find(const AttachmentId& id, Recorded recorded) const;

 private:
  std::map<std::string, rtnl::Link> by_name_;
};

// Returns whether a host end of ours without a record is a port of the bridge. `gateway_ifname` is
// that bridge, or a VLAN of it. `recorded` has the names of the host ends that have a record.
[[nodiscard]] bool HasUnrecordedPort(rtnl::Socket& host,
                                     const std::string& gateway_ifname,
                                     const std::set<std::string>& recorded);

// Throws kConflict if the container has an interface of the attachment's name that is not the other
// end of our pair.
void RefuseForeignInterface(state::Host& host,
                            Container& container,
                            const AttachmentId& id,
                            Recorded recorded);

// Undoes CreateVeth(), even if the kernel's answer was lost, so nobody knows whether the pair was
// created. A link that has the host end's name but is not ours stays.
void EnsurePairGone(state::Host& host, Container& container, const AttachmentId& id);

// Deletes the pair through its host end, so the container's namespace may be gone. If the pair does
// not exist, that is success. A child process may wait for the kernel (plugin/state/children.h).
void EnsureLinkGone(state::Host& host, const state::Record& record);

struct VethPair {
  rtnl::Link host;
  rtnl::Link container;
  bool is_on_lan = false;  // the bridge is adopted: hosts of its LAN reach the container
};

// Creates the pair of `record`, both ends down: the host end as a port of `bridge`, the other end
// in the container. `mtu` is in bytes, 0 for the kernel's default.
void CreateVeth(state::Host& host,
                Container& container,
                const rtnl::Link& bridge,
                const state::Record& record,
                int mtu);

// Sets up the host end of that pair as the port that `record` describes: flags, VLANs, alias, then
// up. The container's end stays down.
[[nodiscard]] VethPair PlugIn(state::Host& host, Container& container, const state::Record& record);

// Checks that `veth`, which was looked up by the host end's name, exists, is up, is a port of
// `bridge` (the record's bridge, if it exists), and has the flags in the record.
void CheckHostVeth(state::Host& host,
                   const state::Record& record,
                   const std::optional<rtnl::Link>& veth,
                   const std::optional<rtnl::Link>& bridge,
                   Findings& findings);

// If the host end carries packets, waits until packets that the node sends through the gateway
// arrive.
void AwaitGateway(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::link
