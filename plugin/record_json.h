// A record as JSON: the content of its file, but for what says whose it is (record.h).
//
// Errors  ParseRecord throws what nlohmann::json or std::optional throw: the file is ours, so
//         whatever is missing or odd makes the whole of it void.
#pragma once

#include <nlohmann/json.hpp>

#include "plugin/record.h"

namespace nomad_bridge {

[[nodiscard]] nlohmann::json ToJson(const NetnsId& id);
[[nodiscard]] NetnsId ParseNetnsId(const nlohmann::json& value);

[[nodiscard]] nlohmann::json ToJson(const Record& record);
[[nodiscard]] Record ParseRecord(const nlohmann::json& value);

}  // namespace nomad_bridge
