// Reads JSON as Go's encoding/json does, with errors that name the key's path.
//
// Shapes  A JsonView is one value and its path ("ipam.ranges[0][1].subnet"). Keys match in any
//         letter case. null counts as absent.
// Keys    If a key occurs twice, the last value counts, as in Go; libcni passes on only that value.
//         If keys of one object differ only in letter case, Go takes the last; here the lookup of
//         one of them throws. So data that is only passed on (pod annotations, another plugin's
//         config) may contain such keys. KeepLastOfEachKey is for verbs that must not fail because
//         of them.
// Errors  kInvalidConfig: msg names path and value, details what is allowed. kDecode: names the
//         parser's position, or the duplicate key's path.
// Limits  1,000 levels of nesting (Go: 10,000).
// Owner   A view points into a document, which must outlive it.
// Source  RFC 8259; Go's encoding/json, "Unmarshal".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "base/ip.h"
#include "base/names.h"

namespace nomad_bridge::cni {

// Deletes a document. Files that only hold a document include json_fwd.hpp alone: the compiler
// takes a second to parse all of nlohmann/json.
struct JsonDeleter {
  void operator()(nlohmann::json* document) const;
};
using JsonPtr = std::unique_ptr<nlohmann::json, JsonDeleter>;

// Parses `text`. `name` says in the message what `text` is: "stdin".
[[nodiscard]] JsonPtr ParseJson(std::string_view text, std::string_view name);

// Removes keys that differ only in letter case, at every level, and keeps the last in byte order.
// libcni sends sorted keys, so Go takes the same key.
void KeepLastOfEachKey(nlohmann::json& value);

class JsonView {
 public:
  // The path is empty for the config itself.
  JsonView(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  [[nodiscard]] const nlohmann::json& value() const { return *value_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // Returns the same view, which also appends each key that it looks up to `asked`.
  [[nodiscard]] JsonView Recording(std::vector<std::string>& asked) const {
    JsonView recording = *this;
    recording.asked_ = &asked;
    return recording;
  }

  // Returns "object", "array", "string", "number", "boolean" or "null".
  [[nodiscard]] std::string_view Kind() const;

  // Returns the member. If it is missing or null, returns a view that converts to false and has no
  // members. Throws if this is no object.
  [[nodiscard]] JsonView Find(std::string_view key) const;
  [[nodiscard]] explicit operator bool() const;
  // Returns whether there is such a member, even if it is null.
  [[nodiscard]] bool Has(std::string_view key) const { return FindMember(key) != nullptr; }
  // Returns a member that must exist. `allowed` says in the error what this object must be.
  [[nodiscard]] JsonView Require(std::string_view key, std::string_view allowed) const;
  // Returns the keys of an object.
  [[nodiscard]] std::vector<std::string> Keys() const;
  // Returns the elements. Throws if this is no array.
  [[nodiscard]] std::vector<JsonView> Elements() const;

  [[nodiscard]] std::string String() const;
  [[nodiscard]] bool Bool() const;
  // Returns nullopt for anything but an integer, and for an integer of more than 64 bits.
  [[nodiscard]] std::optional<std::int64_t> FindInteger() const;
  // Returns an integer from `least` to `most`. The error names the range.
  [[nodiscard]] std::int64_t Integer(std::int64_t least, std::int64_t most) const;
  [[nodiscard]] Ip Address() const;
  [[nodiscard]] Cidr Subnet() const;  // host bits are kept

  // Members that may be missing. As in Go, an empty string is the same as a missing one.
  [[nodiscard]] std::optional<std::string> FindString(std::string_view key) const;
  [[nodiscard]] std::optional<Ip> FindAddress(std::string_view key) const;
  [[nodiscard]] std::optional<bool> FindBool(std::string_view key) const;
  template <typename Number>
  [[nodiscard]] std::optional<Number> FindInteger(std::string_view key, std::int64_t most) const {
    const JsonView member = Find(key);
    return member ? std::optional(static_cast<Number>(member.Integer(0, most))) : std::nullopt;
  }
  // Returns the value that the string names, or `fallback` if there is none. `allowed` tells the
  // names in the error.
  template <typename Enum, std::size_t kCount>
  [[nodiscard]] Enum FindWord(std::string_view key,
                              const std::string& fallback,
                              const Names<Enum, kCount>& names,
                              std::string_view allowed) const {
    const std::optional<Enum> value = FindNamed(names, FindString(key).value_or(fallback));
    return value ? *value : throw Find(key).Wrong(allowed);
  }
  // Returns the elements of an array; none if the array is missing.
  [[nodiscard]] std::vector<JsonView> FindArray(std::string_view key) const;
  // Returns the result of `parse` for each element of an array.
  template <typename Parse>
  [[nodiscard]] auto FindEach(std::string_view key, Parse parse) const {
    std::vector<std::invoke_result_t<Parse, const JsonView&>> parsed;
    for (const JsonView& element : FindArray(key)) {
      parsed.push_back(std::invoke(parse, element));
    }
    return parsed;
  }

  // Returns "invalid 'mtu': 12", for a wrong type or value, with the details "allowed: <allowed>".
  [[nodiscard]] Error Wrong(std::string_view allowed) const;
  // Returns the value for a message: on one line, and cut if it is long.
  [[nodiscard]] std::string Shown() const;

 private:
  [[nodiscard]] const nlohmann::json* FindMember(std::string_view key) const;

  const nlohmann::json* value_;
  std::string path_;
  std::vector<std::string>* asked_ = nullptr;
};

}  // namespace nomad_bridge::cni
