// The veth pair of an attachment, seen from its host end: found, created, plugged into the bridge,
// deleted.
//
// Ours     by the name derived from the attachment and the alias (kernel_names.h).
// Errors   kConflict if the container has another interface of that name; kKernel.
#pragma once

#include <optional>

#include "netlink/rtnl/rtnl.h"
#include "plugin/link/container.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

// The host end of `id`, if it is there and ours by its alias, or by `recorded`: a record names it.
[[nodiscard]] std::optional<rtnl::Link> FindHostVeth(rtnl::Socket& host,
                                                     const AttachmentId& id,
                                                     bool recorded);

// Throws kConflict if the container has an interface of that name which is not the other end of our
// pair.
void RefuseForeignInterface(state::Host& host,
                            Container& container,
                            const AttachmentId& id,
                            bool recorded);

// Deletes the pair from the host's end; needs no container namespace. Absent is success.
void EnsureLinkGone(state::Host& host, const AttachmentId& id, bool recorded);

struct VethPair {
  rtnl::Link host;
  rtnl::Link container;
};

// Makes the pair of `record`, down: the host end in `bridge`, the container end in its namespace.
void CreateVeth(state::Host& host,
                Container& container,
                const rtnl::Link& bridge,
                const state::Record& record,
                int mtu);

// The host end of that pair becomes the port that `record` says: flags, label, up. The container end
// stays down.
[[nodiscard]] VethPair PlugIn(state::Host& host, Container& container, const state::Record& record);

}  // namespace nomad_bridge::link
