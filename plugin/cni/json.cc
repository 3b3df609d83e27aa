#include "plugin/cni/json.h"

#include <cstddef>
#include <map>

#include "base/text.h"

namespace nomad_bridge::cni {
namespace {

using nlohmann::json;

// Printing a value for a message goes down by recursion: this bounds the stack.
constexpr std::size_t kMaxDepth = 1000;
constexpr std::size_t kMaxShownBytes = 160;
constexpr std::size_t kMaxComplaintBytes = 300;

// Builds the document from the parser's events. nlohmann's own builder sorts keys and so forgets
// which of "name" and "Name" came last; its ordered one searches linearly, so that many keys take
// forever.
class Builder : public nlohmann::json_sax<json> {
 public:
  explicit Builder(std::string_view name) : name_(name) {}

  [[nodiscard]] json Take() { return std::move(root_); }

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t& /*digits*/) override {
    return Put(value);
  }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON has none
  bool start_object(std::size_t /*size*/) override { return Open(json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t /*size*/) override { return Open(json::array()); }
  bool end_array() override { return Close(); }

  // The loser is erased rather than overwritten: the winner keeps its own spelling for messages.
  bool key(string_t& key) override {
    Frame& frame = frames_.back();
    const auto [earlier, is_new] = frame.spellings.try_emplace(Lower(key), key);
    if (!is_new && earlier->second != key) {
      frame.place->erase(earlier->second);
      earlier->second = key;
    }
    frame.member = &(*frame.place)[key];
    return true;
  }

  bool parse_error(std::size_t /*position*/,
                   const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    const std::string_view words =
        error.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
    const std::size_t prefix = words.find("] ");
    throw Error(Code::kDecode,
                Cat("cannot decode ", name_, " as JSON"),
                CutUtf8(Printable(words.substr(prefix == words.npos ? 0 : prefix + 2)),
                        kMaxComplaintBytes));
  }

 private:
  // A container that is not closed yet.
  struct Frame {
    json* place = nullptr;
    json* member = nullptr;  // where the next value of an object goes
    std::map<std::string, std::string>
        spellings;  // lower case to the spelling that is in the object
  };

  // Where the value now stands. The pointer holds until its container is closed: an array grows
  // only after the element that is being filled is complete, and an object's nodes do not move.
  json* Place(json value) {
    if (frames_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Frame& frame = frames_.back();
    if (frame.place->is_array()) {
      frame.place->push_back(std::move(value));
      return &frame.place->back();
    }
    *frame.member = std::move(value);
    return frame.member;
  }

  bool Put(json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(json opened) {
    if (frames_.size() == kMaxDepth) {
      throw Error(Code::kDecode,
                  Cat("cannot decode ", name_, " as JSON"),
                  Cat("nested deeper than ", kMaxDepth, " levels"));
    }
    json* const place = Place(std::move(opened));
    frames_.push_back({.place = place});
    return true;
  }

  bool Close() {
    frames_.pop_back();
    return true;
  }

  std::string name_;
  json root_;
  std::vector<Frame> frames_;
};

std::string Child(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : Cat(path, '.', key);
}

}  // namespace

json ParseJson(std::string_view text, std::string_view name) {
  Builder builder(name);
  // The result says nothing new: every error has been thrown.
  static_cast<void>(json::sax_parse(text.begin(), text.end(), &builder));
  return builder.Take();
}

std::optional<JsonView> JsonView::Find(std::string_view key) const {
  if (!value_->is_object()) {
    throw Wrong("an object");
  }
  // ParseJson leaves one spelling; a value made otherwise may hold several.
  const std::string wanted = Lower(key);
  const json* found = nullptr;
  for (const auto& [present, member] : value_->items()) {
    if (present.size() == wanted.size() && Lower(present) == wanted) {
      found = &member;
    }
  }
  if (found == nullptr || found->is_null()) {
    return std::nullopt;
  }
  return JsonView(*found, Child(path_, key));
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

std::int64_t JsonView::Integer(std::int64_t least, std::int64_t most) const {
  // Numbers beyond int64 come as unsigned or as floating point. As in Go, 1500.0 is not whole.
  const bool fits = value_->is_number_unsigned()
                        ? value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
                        : value_->is_number_integer();
  const std::int64_t number = fits ? value_->get<std::int64_t>() : 0;
  if (!fits || number < least || number > most) {
    throw Wrong(Cat("an integer from ", least, " to ", most));
  }
  return number;
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

std::optional<std::string> JsonView::FindText(std::string_view key) const {
  const std::optional<JsonView> member = Find(key);
  std::string text = member ? member->String() : std::string();
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

std::optional<Ip> JsonView::FindAddress(std::string_view key) const {
  const std::optional<JsonView> member = Find(key);
  return !member || member->value() == "" ? std::nullopt : std::optional(member->Address());
}

std::optional<bool> JsonView::FindBool(std::string_view key) const {
  const std::optional<JsonView> member = Find(key);
  return member ? std::optional(member->Bool()) : std::nullopt;
}

std::vector<JsonView> JsonView::ElementsOf(std::string_view key) const {
  const std::optional<JsonView> member = Find(key);
  return member ? member->Elements() : std::vector<JsonView>();
}

Error JsonView::Wrong(std::string_view allowed) const {
  const std::string subject = path_.empty() ? "network config" : Quoted(path_);
  return {Code::kInvalidConfig, Cat("invalid ", subject, ": ", Shown()), Cat("allowed: ", allowed)};
}

std::string JsonView::Shown() const {
  // A text made by hand may hold any bytes: replaced, as dump() would throw.
  const std::string text = value_->dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > kMaxShownBytes ? Cat(CutUtf8(text, kMaxShownBytes), "...") : text;
}

}  // namespace nomad_bridge::cni
