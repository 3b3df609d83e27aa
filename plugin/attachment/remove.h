// Removes an attachment, or what is left of it. It may have no record, and the reference plugins
// may have made it. (collect.h decides which attachments are stale.)
//
// Order    First the record gets the phase leaving, so that nobody repairs what is removed. Another
//          IPAM plugin then releases the address, before the link goes, which the plugin may need.
//          The link goes before the rules, so that the container never sends without rules. After
//          the rules, the ports go to a sibling that wants them. Then the leases are released:
//          nothing leads to the address any more. The record goes last, and only if nothing failed,
//          so that the next DEL reads in it what is left.
// Errors   Unless a function says otherwise, it throws nothing. It tries everything, and then
//          returns one line for each failure.
// Locks    The caller holds the attachment's lock. The rules' and the leases' locks are taken.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/undo.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::attachment {

// Removes the parts of `record` that are not live in `rest`. Then writes the record as `rest`, or
// removes it if `rest` has no part.
[[nodiscard]] std::vector<std::string> Remove(state::Host& host,
                                              const state::Record& record,
                                              const state::Record& rest);
// Removes all parts.
[[nodiscard]] std::vector<std::string> RemoveAll(state::Host& host, const state::Record& record);

// Undoes Publish() of `record`, which may have failed before the commit. Afterwards the record is
// `rest`. Throws kIncomplete.
void UndoPublish(state::Host& host, const state::Record& record, const state::Record& rest);

// Makes way for a new ADD: removes the rules and the link that an earlier ADD of `id` left, in any
// namespace. The leases and the record stay, so that the new ADD gets the same addresses. `undo`
// gets a step that removes leases and record. If there is no record (`earlier`), releases the
// leases, too. Throws kIncomplete, or an error of the kernel.
void RemoveEarlier(state::Host& host,
                   const AttachmentId& id,
                   const std::optional<state::Record>& earlier,
                   const std::string& data_dir,
                   Undo& undo);

// The kernel's rules and elements, in which attachments without a record are found. They are read
// once, for a caller that removes several attachments.
struct Dumps {
  explicit Dumps(nft::Socket& socket) : reference_rules(socket) {}

  std::optional<std::vector<nft::Element>> elements = std::nullopt;  // of our tables; lazily read
  takeover::RuleDumps reference_rules;
};

// An attachment without a record (never written, or lost).
struct Unrecorded {
  AttachmentId id;
  std::string data_dir;
  // The leases to release; nullopt: all in `data_dir` that name `id`, which opens each lease.
  std::optional<std::vector<Ip>> leases = std::nullopt;
  std::vector<Ip> addresses = {};  // other addresses that the attachment is known to have had
};

// Finds the elements by their owner, and the link by its derived name.
[[nodiscard]] std::vector<std::string> RemoveUnrecorded(state::Host& host,
                                                        const Unrecorded& unrecorded,
                                                        Dumps& dumps);
[[nodiscard]] std::vector<std::string> RemoveUnrecorded(state::Host& host,
                                                        const Unrecorded& unrecorded);

}  // namespace nomad_bridge::attachment
