// An attachment's rules: its elements in our table, in force or gone, and everybody else's put
// right on the way.
//
// Trust    The ruleset's generation after our last change is kept in a file; while it is still the
//          kernel's, nothing has to be looked at. When it is not (a flush, a reload, another tool),
//          what living attachments should have is compared with what the kernel has, and mended.
// Errors   kConflict if an address or a host port belongs to a living attachment, naming it by its
//          labels, or if another network on the node uses another acceptMarkBit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugin/config.h"
#include "plugin/host.h"
#include "plugin/record.h"

namespace nomad_bridge {

// Puts everything of `record` in force, in one atomic batch. What dead attachments hold of it is
// taken over, and they are buried. Says on stderr what was mended. `again`: some of it may be in
// force already.
void PublishRules(Host& host, const Record& record, bool again);

// The same for an attachment that has its rules already, if anything was changed in the ruleset
// since we last looked.
void MendRules(Host& host, const Record& record);

// Takes `elements` out, where they still belong to whom their comments name.
void WithdrawRules(Host& host, const std::vector<NftElement>& elements);

// When the rules of `record` are gone: its ports go to another attachment of the same container that
// wants them too.
void HandOnPorts(Host& host, const Record& record);

// The elements in the kernel that belong to `who`, by a dump: for DEL without a record.
[[nodiscard]] std::vector<NftElement> FindRulesOf(Host& host, const Attachment& who);

// The part that an element in our table belongs to; nullopt for what all parts share.
[[nodiscard]] std::optional<Part> PartOf(const NftElement& element);

// What is missing of the rules of `record`, one phrase each, changing nothing.
[[nodiscard]] std::vector<std::string> MissingRules(Host& host, const Record& record);

}  // namespace nomad_bridge
