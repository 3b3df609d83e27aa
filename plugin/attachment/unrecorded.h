// Makes a record of an attachment that has none (never written, or lost), so that it is removed
// like any other (remove.h). The reference plugins may have made the attachment.
//
// Source  The link by its derived name and its alias, elements by their comment, the reference
//         plugins' rules, and leases.
// Errors  kKernel, kIo.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "netlink/nft/element.h"
#include "plugin/cni/error_list.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::attachment {

struct Leases {
  std::string data_dir;
  std::vector<Ip> addresses;
};

// The kernel's elements and rules, which are read when they are first needed, and then kept, for a
// caller that looks for several attachments.
struct Dumps {
  explicit Dumps(nft::Socket& socket) : reference_rules(socket) {}

  std::optional<std::vector<nft::Element>> elements = std::nullopt;  // of our tables
  takeover::RuleDumps reference_rules;
};

// Returns what the kernel shows of `id`, which has `leases`. The record has the parts that are
// there, and Record::is_from_kernel is set.
[[nodiscard]] state::Record RecordFromKernel(state::Host& host,
                                             const AttachmentId& id,
                                             const Leases& leases,
                                             Dumps& dumps);
// The same, with every lease of `id` in `data_dir`: opens each lease there. What cannot be read is
// added to `failures`, and counts as absent.
[[nodiscard]] state::Record RecordFromKernel(state::Host& host,
                                             const AttachmentId& id,
                                             const std::string& data_dir,
                                             cni::ErrorList& failures);

}  // namespace nomad_bridge::attachment
