// Converts records to the text of their files, and back.
//
// Shapes  A record's file is one JSON object: the members of Record under their own names, "origin"
//         (where it was written), and "host_veth", which is derived and only for people. Addresses
//         are "10.0.0.2/24", MACs "02:…", enumerators words, and numbers whole, in every release.
// Release A missing key has its default, so the default of a new key must mean what older records
//         mean. An unknown key shows that a newer release wrote the record: the known keys are
//         read, and the record is not written again. So a key, once released, is always known.
// Errors  ParseRecord() throws std::exception if the identity or the origin is missing, or if a
//         value is wrong: the file is ours, so it is void as a whole.
#pragma once

#include <string>
#include <string_view>

#include "plugin/state/record.h"

namespace nomad_bridge::state {

struct StoredRecord {
  Record record;
  Origin origin;
};

// Returns valid JSON in any case: bytes of labels that are not UTF-8 are replaced.
[[nodiscard]] std::string FormatRecord(const Record& record, const Origin& origin);
[[nodiscard]] StoredRecord ParseRecord(std::string_view text);

}  // namespace nomad_bridge::state
