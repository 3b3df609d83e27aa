// A JSON file with comments, in which every value knows where it stands.
//
// Shapes  Keys as they are written, in their order; their letter case counts. Comments are // and
//         /* */. A number, true, false or null is its own text.
// Errors  kInvalidConfig: msg is "FILE:LINE:COLUMN: ...", details what is allowed. Columns count
//         characters, from 1.
// Limits  32 levels of nesting.
// Owner   A Node points into its Document, which must outlive it and stay where it is.
// Source  RFC 8259; nlohmann/json's ignore_comments. Its values do not know where they stand, so
//         what its SAX interface reports is laid beside the text again.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace nomad_bridge::policy {

class Document {
 public:
  enum class Kind { kOther, kString, kArray, kObject };  // other: a number, true, false, null

  struct Value {
    Kind kind = Kind::kOther;
    std::size_t at = 0;           // where it begins in the text
    std::string text;             // what a string means; else as it is written, of `other` alone
    std::vector<Value> elements;  // of an array; of an object the values
    std::vector<Value> keys;      // of an object, one for each of its values
  };

  // `file` is what messages call it.
  Document(std::string file, std::string text);

  [[nodiscard]] const Value& root() const { return root_; }
  // "FILE:LINE:COLUMN"
  [[nodiscard]] std::string PlaceOf(std::size_t at) const;

 private:
  std::string file_;
  std::string text_;
  Value root_;
};

// A value with the key that it stands under.
class Node {
 public:
  explicit Node(const Document& document) : Node(document, document.root(), "file") {}
  Node(const Document& document, const Document::Value& value, std::string_view key)
      : document_(&document), value_(&value), key_(key) {}

  [[nodiscard]] Document::Kind kind() const { return value_->kind; }
  [[nodiscard]] const std::string& text() const { return value_->text; }
  [[nodiscard]] std::string Place() const { return document_->PlaceOf(value_->at); }

  // Throws unless this is an object with no other keys, and each but once.
  void RequireKeys(std::initializer_list<std::string_view> known) const;
  [[nodiscard]] std::optional<Node> Find(std::string_view key) const;
  [[nodiscard]] Node Require(std::string_view key) const;
  // All values of an object, each under its key; the place is the key's.
  [[nodiscard]] std::vector<Node> Keys() const;
  // Those of an array, under the array's key.
  [[nodiscard]] std::vector<Node> Elements() const;
  // The same, at least one.
  [[nodiscard]] std::vector<Node> SomeElements(std::string_view of_what) const;
  [[nodiscard]] const std::string& String(std::string_view allowed) const;
  [[nodiscard]] bool Bool() const;

  // "FILE:LINE:COLUMN: invalid 'ports': 'tcp/0'<hint>", details "allowed: <allowed>".
  [[nodiscard]] Error Wrong(std::string_view allowed, std::string_view hint = {}) const;
  // "FILE:LINE:COLUMN: <msg>"
  [[nodiscard]] Error Refused(std::string_view msg, std::string details = {}) const;

 private:
  // Each under this one's key.
  [[nodiscard]] std::vector<Node> UnderThis(const std::vector<Document::Value>& values) const;

  const Document* document_;
  const Document::Value* value_;
  std::string_view key_;
};

}  // namespace nomad_bridge::policy
