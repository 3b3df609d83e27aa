// The JSON documents of -json, and small conversions for them.
//
// Shapes  One object, "version" first; docs/schema/ has what each command prints. Fields are only ever
//         added. What cannot be told is null. Well-formed UTF-8, whatever a label holds.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

namespace nomad_bridge::cli {

// Keeps the order in which its keys are added.
using Json = nlohmann::ordered_json;

// {"version": 1}
[[nodiscard]] Json NewDocument();

// To stdout; errors as Print() of terminal.h.
void PrintDocument(const Json& document);

// null, or the value itself, or its Text().
template <typename Value>
[[nodiscard]] Json OrNull(const std::optional<Value>& value) {
  if (!value) {
    return nullptr;
  }
  if constexpr (requires { value->Text(); }) {
    return value->Text();
  } else {
    return *value;
  }
}

// An array of their Text().
template <typename Values>
[[nodiscard]] Json Texts(const Values& values) {
  Json array = Json::array();
  for (const auto& value : values) {
    array.push_back(value.Text());
  }
  return array;
}

}  // namespace nomad_bridge::cli
