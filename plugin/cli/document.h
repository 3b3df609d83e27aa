// The JSON documents of -json, and small conversions for them.
//
// Shapes  One object, "version" first; docs/schema/ has what each command prints. Fields are only
//         ever added. What cannot be told is null. Well-formed UTF-8, whatever a label holds.
#pragma once

#include <functional>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "plugin/cli/terminal.h"

namespace nomad_bridge::cli {

// Keeps the order in which its keys are added.
using Json = nlohmann::ordered_json;

// To stdout, behind "version"; errors as Print() of terminal.h.
inline void PrintDocument(const Json& fields) {
  Json document = {{"version", 1}};
  document.update(fields);
  Print(Cat(document.dump(2, ' ', false, Json::error_handler_t::replace), '\n'));
}

// Returns null for a text that is empty.
[[nodiscard]] inline Json OrNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

// Makes an array with the result of `convert` for each value.
template <typename Values, typename Convert>
[[nodiscard]] Json ArrayOf(const Values& values, Convert convert) {
  Json array = Json::array();
  for (const auto& value : values) {
    array.push_back(std::invoke(convert, value));
  }
  return array;
}

}  // namespace nomad_bridge::cli
