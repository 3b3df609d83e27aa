// Removing an attachment, whatever is left of it: with or without a record, made by us or by the
// reference plugins. (collect.h decides which ones are stale.)
//
// Order    The record says leaving before anything is removed, so that nobody repairs it meanwhile.
//          Then link, rules, leases: nothing passes without rules, and an address is released only
//          when nothing leads to it any more. Another IPAM plugin is asked first: it may need the
//          link.
//          Once its rules are gone, its ports go to a sibling that wants them. The record goes
//          last, and only if nothing failed, so that the next DEL knows as much.
// Errors   Unless said otherwise nothing is thrown: what failed comes back, one line each, after
//          everything was tried.
// Locks    The attachment's lock is held by the caller; the rules' and the leases' are taken.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/undo.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::attachment {

// The parts of `record` that are not live in `rest`. The record is written anew, as `rest`; it goes
// if that has no part.
[[nodiscard]] std::vector<std::string> Remove(state::Host& host,
                                              const state::Record& record,
                                              const state::Record& rest);
// All of it.
[[nodiscard]] std::vector<std::string> RemoveAll(state::Host& host, const state::Record& record);

// Undoes Publish() of `record`, which may have failed before the commit: afterwards the record is
// `rest`. Throws kIncomplete.
void UndoPublish(state::Host& host, const state::Record& record, const state::Record& rest);

// Removes what an earlier ADD of `id` left, in whatever namespace, to make way for a new one: rules
// and link. Its leases and its record stay, for the new one to get the same addresses, and `undo`
// gets what removes them; without a record (`earlier`) leases go too. Throws kIncomplete, or what
// the kernel refused.
void RemoveEarlier(state::Host& host,
                   const AttachmentId& id,
                   const std::optional<state::Record>& earlier,
                   const std::string& data_dir,
                   Undo& undo);

// What the kernel holds of attachments without a record, read once for all that are removed in
// turn.
struct Dumps {
  explicit Dumps(nft::Socket& socket) : reference_rules(socket) {}

  std::optional<std::vector<nft::Element>> elements = std::nullopt;  // of ours, once needed
  takeover::RuleDumps reference_rules;
};

// An attachment without a record (never written, or lost).
struct Unrecorded {
  AttachmentId id;
  std::string data_dir;
  // Those to release; nullopt: all in `data_dir` that name it, for which each is opened.
  std::optional<std::vector<Ip>> leases = std::nullopt;
  std::vector<Ip> addresses = {};  // what else it is known to have had
};

// Elements by their owner, the link by its derived name.
[[nodiscard]] std::vector<std::string> RemoveUnrecorded(state::Host& host,
                                                        const Unrecorded& unrecorded,
                                                        Dumps& dumps);
[[nodiscard]] std::vector<std::string> RemoveUnrecorded(state::Host& host,
                                                        const Unrecorded& unrecorded);

}  // namespace nomad_bridge::attachment
