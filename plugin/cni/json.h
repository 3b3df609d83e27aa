// JSON as Go's encoding/json reads it, with errors that name the key's path.
//
// Shapes  A JsonView is one value and its path ("ipam.ranges[0][1].subnet"). Keys match in any
//         letter case. null counts as absent.
// Keys    Of a key that stands twice the last stays, as in Go; libcni passes on only that one. Keys
//         of one object that differ in letter case only, of which Go takes the last, are refused
//         where one of them is looked for; so what is only passed on (pod annotations, another
//         plugin's config) may hold them. KeepLastOfEachKey is for verbs that must not fail for it.
// Errors  kInvalidConfig: msg names path and value, details what is allowed. kDecode: the parser's
//         position, or the duplicate key's path.
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

namespace nomad_bridge::cni {

// A document, kept where only json_fwd.hpp is included: all of nlohmann/json takes a second to
// parse.
struct JsonDeleter {
  void operator()(nlohmann::json* document) const;
};
using JsonPtr = std::unique_ptr<nlohmann::json, JsonDeleter>;

// `name` is what `text` is, for the message: "stdin".
[[nodiscard]] JsonPtr ParseJson(std::string_view text, std::string_view name);

// At every level, of keys that differ in letter case only the last in byte order: what libcni sends
// is sorted, so that Go's last one is the same.
void KeepLastOfEachKey(nlohmann::json& value);

class JsonView {
 public:
  // An empty path is the config itself.
  JsonView(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  [[nodiscard]] const nlohmann::json& value() const { return *value_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // The same view, which adds to `asked` each key that it is asked for.
  [[nodiscard]] JsonView Recording(std::vector<std::string>& asked) const {
    JsonView recording = *this;
    recording.asked_ = &asked;
    return recording;
  }

  // "object", "array", "string", "number", "boolean" or "null".
  [[nodiscard]] std::string_view Kind() const;

  // The member; if it is missing or null, a view that is false, and has no members in its turn.
  // Throws if this is no object.
  [[nodiscard]] JsonView Find(std::string_view key) const;
  [[nodiscard]] explicit operator bool() const;
  // Whether there is such a member, perhaps null.
  [[nodiscard]] bool Has(std::string_view key) const { return FindMember(key) != nullptr; }
  // The same of one that has to be there: `allowed` is what this object has to be.
  [[nodiscard]] JsonView Require(std::string_view key, std::string_view allowed) const;
  // Those of an object.
  [[nodiscard]] std::vector<std::string> Keys() const;
  // The elements; throws if this is no array.
  [[nodiscard]] std::vector<JsonView> Elements() const;

  [[nodiscard]] std::string String() const;
  [[nodiscard]] bool Bool() const;
  // nullopt for anything else, and beyond 64 bits.
  [[nodiscard]] std::optional<std::int64_t> FindInteger() const;
  // From `least` to `most`; the error names the range.
  [[nodiscard]] std::int64_t Integer(std::int64_t least, std::int64_t most) const;
  [[nodiscard]] Ip Address() const;
  [[nodiscard]] Cidr Subnet() const;  // host bits are kept

  // Members that may be missing. As in Go, an empty string is the same as none.
  [[nodiscard]] std::optional<std::string> FindString(std::string_view key) const;
  [[nodiscard]] std::optional<Ip> FindAddress(std::string_view key) const;
  [[nodiscard]] std::optional<bool> FindBool(std::string_view key) const;
  template <typename Number>
  [[nodiscard]] std::optional<Number> FindInteger(std::string_view key, std::int64_t most) const {
    const JsonView member = Find(key);
    return member ? std::optional(static_cast<Number>(member.Integer(0, most))) : std::nullopt;
  }
  // What `parse` makes of the string, or of `fallback`; `allowed` are the strings of which it makes
  // something.
  template <typename Parse>
  [[nodiscard]] auto FindWord(std::string_view key,
                              const std::string& fallback,
                              Parse parse,
                              std::string_view allowed) const {
    const auto value = parse(FindString(key).value_or(fallback));
    return value ? *value : throw Find(key).Wrong(allowed);
  }
  // The elements of an array; none if it is missing.
  [[nodiscard]] std::vector<JsonView> ElementsOf(std::string_view key) const;
  // What `parse` makes of each of them.
  template <typename Parse>
  [[nodiscard]] auto FindEach(std::string_view key, Parse parse) const {
    std::vector<std::invoke_result_t<Parse, const JsonView&>> parsed;
    for (const JsonView& element : ElementsOf(key)) {
      parsed.push_back(std::invoke(parse, element));
    }
    return parsed;
  }

  // "invalid 'mtu': 12", for a wrong type or value; details "allowed: <allowed>".
  [[nodiscard]] Error Wrong(std::string_view allowed) const;
  // The value for a message: on one line, and cut if it is long.
  [[nodiscard]] std::string Shown() const;

 private:
  [[nodiscard]] const nlohmann::json* FindMember(std::string_view key) const;

  const nlohmann::json* value_;
  std::string path_;
  std::vector<std::string>* asked_ = nullptr;
};

}  // namespace nomad_bridge::cni
