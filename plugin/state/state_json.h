// Records and the checkpoint as the text of their files.
//
// Shapes  A record is one JSON object: "version", "network", "containerId", "ifname", "parts",
//         "labels", "netnsPath", "netns", the groups "link", "ipam" and "rules" of Record, and
//         where it was written: "bootId", "hostNetns". "hostVeth" is for people: it is derived,
//         and nothing goes by it. Addresses are "10.0.0.2/24", MACs "02:…", a namespace {"device",
//         "inode"}. The checkpoint: the fields of Checkpoint, "bootId" and "hostNetns".
// Release A key that is missing has its default, and what has that is left out (state_keys.h). One
//         that is unknown is written again as it was: a record of the release before this one, or
//         after it, is used as far as it goes. "version" is the highest of the releases that have
//         written it.
// Errors  Both throw std::exception if the identity is missing
//         or a value is wrong: the file is ours, so it is void as a whole.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plugin/state/checkpoint.h"
#include "plugin/state/record.h"

namespace nomad_bridge::state {

struct StoredRecord {
  Record record;
  Origin origin;
  std::string host_veth;  // of a record that was read: as it said
};

struct StoredCheckpoint {
  Checkpoint checkpoint;
  Origin origin;
};

// Always valid JSON: bytes of labels that are not UTF-8 are replaced.
[[nodiscard]] std::string FormatRecord(const Record& record, const Origin& origin);
[[nodiscard]] StoredRecord ParseRecord(std::string_view text);

[[nodiscard]] std::string FormatCheckpoint(const Checkpoint& checkpoint, const Origin& origin);
[[nodiscard]] StoredCheckpoint ParseCheckpoint(std::string_view text);

// The container id in `text`; nullopt if that is no record.
[[nodiscard]] std::optional<std::string> FindContainerId(std::string_view text);

}  // namespace nomad_bridge::state
