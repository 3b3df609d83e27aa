// The veth pair of an attachment, from its host end: found, created, plugged into the bridge,
// deleted.
//
// Ours     A link is, if it has the name derived from the attachment and its alias
//          (kernel_names.h).
// Errors   kConflict if the container has another interface of that name; kKernel.
// Locks    The attachment's own lock is held by the caller.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mismatch.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/link/container.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

// Whether a record names the attachment. The kernel sets a link's alias one message after making
// the link: if we are killed in between, only the record shows that a veth of that name is ours.
enum class Recorded { kNo, kYes };

// Whether `link`, of the name derived from `id`, is ours.
[[nodiscard]] bool IsHostVethOf(const rtnl::Link& link, const AttachmentId& id, Recorded recorded);

// The host end of `id`, if it is there and ours.
[[nodiscard]] std::optional<rtnl::Link> FindHostVeth(rtnl::Socket& host,
                                                     const AttachmentId& id,
                                                     Recorded recorded);

// The host ends of attachments among all links of the node, which are listed once: for a first look
// at many of them. What came later is not among them.
class ListedVeths {
 public:
  explicit ListedVeths(const std::vector<rtnl::Link>& links);

  [[nodiscard]] std::optional<rtnl::Link> Find(const AttachmentId& id, Recorded recorded) const;

 private:
  std::map<std::string, rtnl::Link> by_name_;
};

// Whether a host end of ours that has no record is plugged into the bridge that `gateway_ifname`
// is, or is a VLAN of. `recorded`: the names of those that have one.
[[nodiscard]] bool HasUnrecordedPort(rtnl::Socket& host,
                                     const std::string& gateway_ifname,
                                     const std::set<std::string>& recorded);

// Throws kConflict if the container has an interface of that name that is not the other end of our
// pair.
void RefuseForeignInterface(state::Host& host,
                            Container& container,
                            const AttachmentId& id,
                            Recorded recorded);

// Undoes CreateVeth(), whether the kernel has done it or not: its answer may have been lost. A link
// of the host end's name that is another's stays.
void EnsurePairGone(state::Host& host, Container& container, const AttachmentId& id);

// Deletes the pair from its host end, so the container's namespace may be gone. Absent is success.
// A child may wait for the kernel (plugin/state/children.h).
void EnsureLinkGone(state::Host& host, const state::Record& record);
void EnsureUnrecordedLinkGone(state::Host& host, const AttachmentId& id);
// Of whatever attachment: a link with an alias of ours.
void EnsureStrayLinkGone(state::Host& host, const rtnl::Link& link);

// Sets the host end up or down. Nothing passes the port while it is down. Absent is success.
enum class HostEnd { kDown, kUp };
void EnsureHostEnd(state::Host& host, const AttachmentId& id, Recorded recorded, HostEnd wanted);

struct VethPair {
  rtnl::Link host;
  rtnl::Link container;
  bool is_on_lan = false;  // the bridge is adopted: hosts of its LAN reach the container
};

// Creates the pair of `record`, both ends down: the host end as a port of `bridge`, the other in
// the container. `mtu` in bytes, 0 for the kernel's default.
void CreateVeth(state::Host& host,
                Container& container,
                const rtnl::Link& bridge,
                const state::Record& record,
                int mtu);

// Sets the host end of that pair up as the port that `record` describes: flags, VLANs, alias, up.
// The container's end stays down.
[[nodiscard]] VethPair PlugIn(state::Host& host, Container& container, const state::Record& record);

// Mismatch::part where that flag of the host end alone was changed.
constexpr const char* kHairpinMode = "hairpin mode";

// `veth`, the host end found by its name, is there, up, a port of `bridge` (the record's, if that
// is there), and has the record's flags.
void CheckHostVeth(state::Host& host,
                   const state::Record& record,
                   const std::optional<rtnl::Link>& veth,
                   const std::optional<rtnl::Link>& bridge,
                   Mismatches& mismatches);

// Waits until what the node sends by way of the gateway arrives, if the host end carries packets.
void AwaitGateway(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::link
