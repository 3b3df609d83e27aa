// Removes an attachment, or what is left of it: with or without a record, made by us or by the
// reference plugins. (collect.h decides which attachments are stale.)
//
// Order    First the record gets the phase leaving, so that nobody repairs what is removed. Then
//          another IPAM plugin releases the address: it may need the link. Then link, rules,
//          leases: nothing passes without rules, and an address is released only when nothing leads
//          to it any more. After the rules, the ports go to a sibling that wants them. The record
//          goes last, and only if nothing failed, so that the next DEL knows as much.
// Errors   Unless a function says otherwise, nothing is thrown: failures are returned, one line
//          each, after everything was tried.
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

// Removes the rules and the link that an earlier ADD of `id` left, in whatever namespace, to make
// way for a new ADD. The leases and the record stay, so that the new ADD gets the same addresses;
// `undo` gets a step that removes them. Without a record (`earlier`) the leases are released, too.
// Throws kIncomplete, or what the kernel refused.
void RemoveEarlier(state::Host& host,
                   const AttachmentId& id,
                   const std::optional<state::Record>& earlier,
                   const std::string& data_dir,
                   Undo& undo);

// What the kernel holds of attachments without a record. Read once, for a caller that removes
// several.
struct Dumps {
  explicit Dumps(nft::Socket& socket) : reference_rules(socket) {}

  std::optional<std::vector<nft::Element>> elements = std::nullopt;  // of our tables, once needed
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
