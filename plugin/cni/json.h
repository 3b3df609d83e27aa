// Reading JSON as Go's encoding/json does, with errors that name the key's path.
//
// Shapes  A JsonView is one value and where it stands ("ipam.ranges[0][1].subnet"). Keys match in
//         any letter case; an exact match does not win over a later one: of several the last wins.
//         null counts as absent.
// Errors  kInvalidConfig: msg names the path and what came, details what is allowed. ParseJson
//         throws kDecode with the parser's position.
// Limits  1,000 levels of nesting (Go: 10,000).
// Source  RFC 8259; Go's encoding/json, "Unmarshal".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/ip.h"

namespace nomad_bridge::cni {

// The one document that `text` holds. Where an object has keys that differ in letter case only, the
// last of them stays, spelled as it came. `name` is what `text` is, for the message: "stdin".
[[nodiscard]] nlohmann::json ParseJson(std::string_view text, std::string_view name);

class JsonView {
 public:
  // `value` must outlive the view. An empty path is the config itself.
  JsonView(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  [[nodiscard]] const nlohmann::json& value() const { return *value_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // The member, or nullopt if absent or null. Throws if this is no object.
  [[nodiscard]] std::optional<JsonView> Find(std::string_view key) const;
  // The elements; throws if this is no array.
  [[nodiscard]] std::vector<JsonView> Elements() const;

  [[nodiscard]] std::string String() const;
  [[nodiscard]] bool Bool() const;
  // A whole number from `least` to `most`; says the range if it is not.
  [[nodiscard]] std::int64_t Integer(std::int64_t least, std::int64_t most) const;
  [[nodiscard]] Ip Address() const;
  [[nodiscard]] Cidr Subnet() const;  // host bits are kept

  // Members that may be missing. As in Go, an empty text is the same as none.
  [[nodiscard]] std::optional<std::string> FindText(std::string_view key) const;
  [[nodiscard]] std::optional<Ip> FindAddress(std::string_view key) const;
  [[nodiscard]] std::optional<bool> FindBool(std::string_view key) const;
  // The members of a list; none if the list is missing.
  [[nodiscard]] std::vector<JsonView> ElementsOf(std::string_view key) const;

  // "bridge": wrong type or value. `allowed` becomes the details.
  [[nodiscard]] Error Wrong(std::string_view allowed) const;
  // The value in a message: on one line, and cut if it is long.
  [[nodiscard]] std::string Shown() const;

 private:
  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace nomad_bridge::cni
