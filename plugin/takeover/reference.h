// Attachments that the reference plugins made, on a node that is being moved over to us: nothing of
// ours is there, but leases in the common format, a veth pair under somebody else's name, and rules
// in nf_tables (plugin/takeover/nft_rules.h) or in tables of iptables-legacy
// (plugin/takeover/legacy_reference.h). CHECK verifies them as they are, DEL and a new ADD remove them.
#pragma once

#include <string>
#include <vector>

#include "plugin/cni/plugin_type.h"
#include "plugin/cni/request.h"
#include "plugin/config/config.h"
#include "plugin/link/container.h"
#include "plugin/state/host.h"

namespace nomad_bridge::takeover {

// Whether a reference plugin made the attachment that `config` has the result of, given that we have
// no record of it: it has no link of ours, but its addresses are leased to it.
[[nodiscard]] bool IsReferenceMade(state::Host& host,
                                   const cni::Request& request,
                                   const config::Config& config);

// Whether rules of the reference plugins belong to `id`. One question where iptables' table nat is
// not in use; else a dump of each chain they might stand in, and one tool where a legacy one is.
// That tables of iptables-legacy cannot be read is a line on stderr: most who ask have nothing there.
[[nodiscard]] bool HasReferenceRules(state::Host& host, const AttachmentId& id);

// Removes those of them that `parts` are about. `addresses` are those `id` had.
void RemoveReferenceRulesOf(state::Host& host,
                            const AttachmentId& id,
                            const std::vector<Ip>& addresses,
                            const cni::Parts& parts);

// The same of an attachment of ours, where nothing says that there are any: what cannot be looked
// into is passed over.
void TryRemoveReferenceRules(state::Host& host,
                             const AttachmentId& id,
                             const std::vector<Ip>& addresses,
                             const cni::Parts& parts);

// Deletes the container's interface if it is one end of a pair whose other end is a port of `bridge`
// without an alias: a reference plugin's.
void EnsureReferenceLinkGone(state::Host& host,
                             link::Container& container,
                             const cni::Request& request,
                             const std::string& bridge);

// What is missing of the host's side of an attachment whose result is `expected`, by the parts that
// `name` does; one phrase each.
[[nodiscard]] std::vector<std::string> DiffReference(state::Host& host,
                                                     const cni::Request& request,
                                                     const cni::PluginType& type,
                                                     const config::Config& config);

}  // namespace nomad_bridge::takeover
