// Reading JSON as Go's encoding/json does, with errors that name the key's path.
//
// Shapes  A JsonView is one value and where it stands ("ipam.ranges[0][1].subnet"). Keys match in any letter case; an exact
//         match does not win over a later one: of several the last wins. null counts as absent.
// Errors  kInvalidConfig: msg names the path and what came, details what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/ip.h"

namespace nomad_bridge {

class JsonView {
 public:
  // `value` must outlive the view.
  JsonView(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}

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

  // "bridge": wrong type or value. `allowed` becomes the details.
  [[nodiscard]] Error Wrong(std::string_view allowed) const;

 private:
  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace nomad_bridge
