// The JSON documents of commands. A command builds one document; -json prints it as it is, and
// tables and texts are printed from its values.
//
// Shapes  One object, "version" first; docs/schema/ has the fields of each command. Fields are only
//         ever added. A value that cannot be read is null. The output is well-formed UTF-8, even if
//         a label is not.
#pragma once

#include <functional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "base/finding.h"
#include "plugin/cli/terminal.h"

namespace nomad_bridge::cli {

// Keeps keys in the order in which they are added.
using Json = nlohmann::ordered_json;

// Prints the document on stdout, with "version" as the first field. Throws as Print() does.
void PrintDocument(const Json& fields);

// Returns the text of a string or a number; "-" for null and an empty string.
[[nodiscard]] std::string PlainText(const Json& value);
[[nodiscard]] Cell ShowPlain(const Json& value);

struct Column {
  const char* header;
  const char* pointer;  // of the value in a row: "/target/by"; "" is the whole row
  Cell (*show)(const Json& value) = ShowPlain;  // gets null if the row lacks the value
  Cuts cuts = Cuts::kNever;
};

// Returns a table with a line for each of `rows`.
[[nodiscard]] std::string TableOf(const Json& rows, std::span<const Column> columns);

// Returns a finding as all documents have it: "what", "verdict", "fix" and "advice". The functions
// below show these values.
[[nodiscard]] Json FindingJson(const Finding& finding);
// "fix: COMMAND", to be pasted as it is, or "advice: ..."; empty if there is nothing to do.
[[nodiscard]] std::string ShowFix(const Json& finding);
// "the lease of 172.26.64.2 belongs to nobody; fix: nomad alloc stop 5f3c1a2b"
[[nodiscard]] std::string ShowWithFix(const Json& finding);

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
