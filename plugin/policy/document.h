// Reads a JSON file with comments into values that know their place in the file.
//
// Shapes  Keys as they are written, in their order; their letter case counts. Comments are // and
//         /* */. The text of a number, true, false or null is as written.
// Errors  kInvalidConfig: msg is "FILE:LINE:COLUMN: ...", details the allowed values. Columns count
//         characters, from 1.
// Limits  32 levels of nesting.
// Owner   A Node points to its source text, which must outlive the Node and keep its address.
// Source  RFC 8259; nlohmann/json's ignore_comments. nlohmann's values do not know their place, so
//         the text is read a second time beside its SAX interface.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace nomad_bridge::policy {

struct SourceText {
  std::string file;  // the name in messages
  std::string text;

  // "FILE:LINE:COLUMN"
  [[nodiscard]] std::string PlaceOf(std::size_t at) const;
};

// A value with its key; an element of an array has the key of the array.
struct Node {
  enum class Kind { kOther, kString, kArray, kObject };  // other: a number, true, false, null

  const SourceText* source = nullptr;
  std::string key;
  Kind kind = Kind::kOther;
  std::size_t at = 0;               // offset of its first byte in the text
  std::string text;                 // the value of a string; the written text of kOther; else empty
  std::vector<Node> elements = {};  // of an array; the values of an object
  std::vector<Node> keys = {};      // of an object, one for each of its values

  [[nodiscard]] std::string Place() const { return source->PlaceOf(at); }

  // Throws unless this is an object with known keys only, each at most once.
  void RequireKeys(std::initializer_list<std::string_view> known) const;
  // Returns nullptr if there is no such key.
  [[nodiscard]] const Node* Find(std::string_view name) const;
  [[nodiscard]] const Node& Require(std::string_view name) const;
  // Returns the keys of an object, each as a node under the object's own key.
  [[nodiscard]] const std::vector<Node>& Keys() const;
  // Returns the elements of the array under `name`; none if it is missing. With `some`, "peer",
  // throws if the array is empty.
  [[nodiscard]] const std::vector<Node>& FindArray(std::string_view name,
                                                   std::string_view some = {}) const;
  [[nodiscard]] const std::string& String(std::string_view allowed) const;
  [[nodiscard]] bool Bool() const;

  // "FILE:LINE:COLUMN: invalid 'ports': 'tcp/0'<hint>", details "allowed: <allowed>".
  [[nodiscard]] Error Wrong(std::string_view allowed, std::string_view hint = {}) const;
  // "FILE:LINE:COLUMN: <msg>"
  [[nodiscard]] Error Refused(std::string_view msg, std::string details = {}) const;
};

// Returns the whole file, under the key "file".
[[nodiscard]] Node ParseDocument(const SourceText& source);

}  // namespace nomad_bridge::policy
