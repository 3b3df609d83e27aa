#include "plugin/cni/json.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace nomad_bridge::cni {
namespace {

using nlohmann::json;

// Limits the stack: copying and printing a document are recursive.
constexpr std::size_t kMaxDepth = 1000;
constexpr std::size_t kMaxShownBytes = 160;
constexpr std::size_t kMaxComplaintBytes = 300;
const json kMissing;

// Returns how deep arrays and objects are nested. Measured before parsing, because the parser needs
// 100 bytes of memory for every '['. A parser callback could stop there, too, but makes nlohmann's
// parser quadratic.
std::size_t DepthOf(std::string_view text) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool is_in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      is_in_string = !is_in_string;
    } else if (is_in_string) {
      at += c == '\\' ? 1 : 0;  // skip the escaped character, which may be a '"'
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

std::string Child(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : Cat(path, '.', key);
}

}  // namespace

JsonPtr ParseJson(std::string_view text, std::string_view name) {
  const auto refused = [&](const std::string& why) {
    return Error(Code::kDecode, Cat("cannot decode ", name, " as JSON"), why);
  };
  if (DepthOf(text) > kMaxDepth) {
    throw refused(Cat("nested deeper than ", kMaxDepth, " levels"));
  }
  try {
    return JsonPtr(new json(json::parse(text)));
  } catch (const json::exception& error) {
    // what() is "[json.exception.parse_error.101] parse error at line 1, ..." and quotes the input.
    const std::string_view what = error.what();
    throw refused(CutUtf8(Printable(what.substr(what.find("] ") + 2)), kMaxComplaintBytes));
  }
}

void KeepLastOfEachKey(json& value) {
  if (!value.is_structured()) {
    return;
  }
  if (value.is_object()) {
    std::set<std::string> seen;
    for (auto member = value.end(); member != value.begin();) {
      --member;
      if (!seen.insert(Lower(member.key())).second) {
        member = value.erase(member);
      }
    }
  }
  for (json& child : value) {
    KeepLastOfEachKey(child);
  }
}

void JsonDeleter::operator()(json* document) const {
  delete document;
}

std::string_view JsonView::Kind() const {
  return value_->type_name();
}

JsonView::operator bool() const {
  return value_ != &kMissing;
}

JsonView JsonView::Find(std::string_view key) const {
  const json* const member = *this ? FindMember(key) : nullptr;
  return {member != nullptr && !member->is_null() ? *member : kMissing, Child(path_, key)};
}

JsonView JsonView::Require(std::string_view key, std::string_view allowed) const {
  const JsonView member = Find(key);
  return member ? member : throw Wrong(allowed);
}

const json* JsonView::FindMember(std::string_view key) const {
  if (!value_->is_object()) {
    throw Wrong("an object");
  }
  if (asked_ != nullptr) {
    asked_->emplace_back(key);
  }
  const json::object_t::value_type* found = nullptr;
  for (const auto& member : value_->get_ref<const json::object_t&>()) {
    if (!EqualIgnoringCase(member.first, key)) {
      continue;
    }
    if (found != nullptr) {
      throw Error(Code::kDecode,
                  Format("duplicate key '{}'", Child(path_, key)),
                  Format("'{}' and '{}' are the same key", found->first, member.first));
    }
    found = &member;
  }
  return found != nullptr ? &found->second : nullptr;
}

std::vector<std::string> JsonView::Keys() const {
  std::vector<std::string> keys;
  for (auto member = value_->begin(); member != value_->end(); ++member) {
    keys.push_back(member.key());
  }
  return keys;
}

std::vector<JsonView> JsonView::Elements() const {
  if (!value_->is_array()) {
    throw Wrong("an array");
  }
  std::vector<JsonView> elements;
  elements.reserve(value_->size());
  for (const json& element : *value_) {
    elements.emplace_back(element, Cat(path_, '[', elements.size(), ']'));
  }
  return elements;
}

std::string JsonView::String() const {
  if (!value_->is_string()) {
    throw Wrong("a string");
  }
  return value_->get<std::string>();
}

bool JsonView::Bool() const {
  if (!value_->is_boolean()) {
    throw Wrong("true or false");
  }
  return value_->get<bool>();
}

std::optional<std::int64_t> JsonView::FindInteger() const {
  // Numbers beyond int64 are unsigned or floating point. As in Go, 1500.0 is no integer.
  const bool fits = value_->is_number_unsigned()
                        ? value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
                        : value_->is_number_integer();
  return fits ? std::optional(value_->get<std::int64_t>()) : std::nullopt;
}

std::int64_t JsonView::Integer(std::int64_t least, std::int64_t most) const {
  const std::optional<std::int64_t> number = FindInteger();
  if (!number || *number < least || *number > most) {
    throw Wrong(Format("an integer from {} to {}", least, most));
  }
  return *number;
}

Ip JsonView::Address() const {
  const std::optional<Ip> address = value_->is_string() ? Ip::Parse(String()) : std::nullopt;
  if (!address) {
    throw Wrong("an IP address, as '10.0.0.5' or 'fd00::5'");
  }
  return *address;
}

Cidr JsonView::Subnet() const {
  const std::optional<Cidr> subnet = value_->is_string() ? Cidr::Parse(String()) : std::nullopt;
  if (!subnet) {
    throw Wrong("an IP address with its prefix length, as '10.0.0.0/24' or 'fd00::/64'");
  }
  return *subnet;
}

std::optional<std::string> JsonView::FindString(std::string_view key) const {
  const JsonView member = Find(key);
  std::string string = member ? member.String() : std::string();
  return string.empty() ? std::nullopt : std::optional(std::move(string));
}

std::optional<Ip> JsonView::FindAddress(std::string_view key) const {
  const JsonView member = Find(key);
  return !member || member.value() == "" ? std::nullopt : std::optional(member.Address());
}

std::optional<bool> JsonView::FindBool(std::string_view key) const {
  const JsonView member = Find(key);
  return member ? std::optional(member.Bool()) : std::nullopt;
}

std::vector<JsonView> JsonView::FindArray(std::string_view key) const {
  const JsonView member = Find(key);
  return member ? member.Elements() : std::vector<JsonView>();
}

Error JsonView::Wrong(std::string_view allowed) const {
  const std::string subject = path_.empty() ? "network config" : Quoted(path_);
  return {
      Code::kInvalidConfig, Format("invalid {}: {}", subject, Shown()), Cat("allowed: ", allowed)};
}

std::string JsonView::Shown() const {
  // dump() throws on a string that is not UTF-8. Only a string that was not parsed can be such a
  // string.
  const std::string text = value_->dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > kMaxShownBytes ? Cat(CutUtf8(text, kMaxShownBytes), "...") : text;
}

}  // namespace nomad_bridge::cni
