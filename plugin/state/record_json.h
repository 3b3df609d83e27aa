// A record as the text of its file: one JSON object with the record's own keys and, under "bootId"
// and "hostNetns", where it was written.
//
// Errors  ParseRecord throws what nlohmann::json or std::optional throw: the file is ours, so
//         whatever is missing or odd makes the whole of it void.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plugin/state/origin.h"
#include "plugin/state/record.h"

namespace nomad_bridge::state {

struct StoredRecord {
  Record record;
  Origin origin;
};

// Always valid JSON: bytes of labels that are no UTF-8 are replaced.
[[nodiscard]] std::string FormatRecord(const Record& record, const Origin& origin);
[[nodiscard]] StoredRecord ParseRecord(std::string_view text);

// The container id inside `text`, which may be anything: nullopt then.
[[nodiscard]] std::optional<std::string> FindContainerId(std::string_view text);

// Whether `text` is a record that somebody wrote since the machine started.
[[nodiscard]] bool IsOfBoot(std::string_view text, std::string_view boot_id);

}  // namespace nomad_bridge::state
