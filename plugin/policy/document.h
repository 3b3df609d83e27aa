// A JSON file with comments, in which every value knows where it stands.
//
// Shapes  Keys as they are written, in their order; their letter case counts. Comments are // and
//         /* */. A number, true, false or null is its own text.
// Errors  kInvalidConfig: msg is "FILE:LINE:COLUMN: ...", details what is allowed. Columns count
//         characters, from 1.
// Limits  32 levels of nesting.
// Owner   A Node points to the text that it is from, which must outlive it and stay where it is.
// Source  RFC 8259; nlohmann/json's ignore_comments. Its values do not know where they stand, so
//         what its SAX interface reports is laid beside the text again.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace nomad_bridge::policy {

struct SourceText {
  std::string file;  // what messages call it
  std::string text;

  // "FILE:LINE:COLUMN"
  [[nodiscard]] std::string PlaceOf(std::size_t at) const;
};

// A value with the key that it stands under: elements of an array have the array's.
struct Node {
  enum class Kind { kOther, kString, kArray, kObject };  // other: a number, true, false, null

  const SourceText* source = nullptr;
  std::string key;
  Kind kind = Kind::kOther;
  std::size_t at = 0;               // where it begins in the text
  std::string text;                 // what a string means; else as it is written, of `other` alone
  std::vector<Node> elements = {};  // of an array; of an object the values
  std::vector<Node> keys = {};      // of an object, one for each of its values

  [[nodiscard]] std::string Place() const { return source->PlaceOf(at); }

  // Throws unless this is an object with no other keys, and each but once.
  void RequireKeys(std::initializer_list<std::string_view> known) const;
  // nullptr if it is not there.
  [[nodiscard]] const Node* Find(std::string_view name) const;
  [[nodiscard]] const Node& Require(std::string_view name) const;
  // Those of an object; each is under the object's own key.
  [[nodiscard]] const std::vector<Node>& Keys() const;
  // Those of the array under `name`, none if it is missing; of `some`, "peer", at least one.
  [[nodiscard]] const std::vector<Node>& ElementsOf(std::string_view name,
                                                    std::string_view some = {}) const;
  [[nodiscard]] const std::string& String(std::string_view allowed) const;
  [[nodiscard]] bool Bool() const;

  // "FILE:LINE:COLUMN: invalid 'ports': 'tcp/0'<hint>", details "allowed: <allowed>".
  [[nodiscard]] Error Wrong(std::string_view allowed, std::string_view hint = {}) const;
  // "FILE:LINE:COLUMN: <msg>"
  [[nodiscard]] Error Refused(std::string_view msg, std::string details = {}) const;
};

// All of the file, under the key "file".
[[nodiscard]] Node ParseDocument(const SourceText& source);

}  // namespace nomad_bridge::policy
