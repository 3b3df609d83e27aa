// The JSON documents of -json, and small conversions for them.
//
// Shapes  One object, "version" first; docs/schema/ has the fields of each command. Fields are only
//         ever added. A value that cannot be read is null. The output is well-formed UTF-8, even if
//         a label is not.
#pragma once

#include <functional>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "plugin/cli/terminal.h"

namespace nomad_bridge::cli {

// Keeps keys in the order in which they are added.
using Json = nlohmann::ordered_json;

// Prints the document on stdout, with "version" as the first field. Throws as Print() does.
inline void PrintDocument(const Json& fields) {
  Json document = {{"version", 1}};
  document.update(fields);
  Print(Cat(document.dump(2, ' ', false, Json::error_handler_t::replace), '\n'));
}

// Returns null if `text` is empty.
[[nodiscard]] inline Json OrNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

// Returns an array with the result of `convert` for each value.
template <typename Values, typename Convert>
[[nodiscard]] Json ArrayOf(const Values& values, Convert convert) {
  Json array = Json::array();
  for (const auto& value : values) {
    array.push_back(std::invoke(convert, value));
  }
  return array;
}

}  // namespace nomad_bridge::cli
