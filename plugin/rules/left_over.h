// Finds elements of our tables that nothing needs.
//
// Errors  kKernel, kIo.
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "base/attachment_id.h"
#include "base/finding.h"
#include "netlink/nft/element.h"
#include "plugin/state/host.h"

namespace nomad_bridge::rules {

// Returns those of the shared `elements` that no attachment but `id` needs. This is the only answer
// to "who still uses it?": an element is needed by a record that is not being removed, and by a
// port of ours whose record was lost. The caller holds the rules' lock.
[[nodiscard]] std::vector<nft::Element> WithoutNeeded(state::Host& host,
                                                      std::vector<nft::Element> elements,
                                                      const AttachmentId& id);

// Adds a finding for each element that nothing explains, and in mode kRepair removes them:
// elements of an owner without a record, unless it is among `valid`, its link is still there, or a
// container still has the address; elements that name an address of another attachment; and shared
// elements that nobody needs. Dumps all sets. Takes the rules' lock.
void CheckLeftOver(state::Host& host, const std::set<AttachmentId>& valid, Findings& findings);

}  // namespace nomad_bridge::rules
