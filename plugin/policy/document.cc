#include "plugin/policy/document.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/list.h"
#include "base/nearest.h"
#include "base/text.h"

namespace nomad_bridge::policy {
namespace {

using Kind = Node::Kind;

// Policy files need six levels.
constexpr std::size_t kMaxDepth = 32;

// Builds the values that the parser reports, token by token. Reads the same text beside the parser
// to find where each token begins: after the token before, blanks, comments and separators.
class Builder {
 public:
  explicit Builder(const SourceText& source)
      : source_(source),
        text_(source.text),
        next_(text_.starts_with("\xef\xbb\xbf") ? 3 : 0),
        open_({{.source = &source, .key = "file", .kind = Kind::kArray}}) {}

  [[nodiscard]] Node TakeRoot() { return std::move(open_.front().elements.front()); }

  // nlohmann's parser calls these. Returning false would end it, but errors are thrown instead.
  bool null() { return AddWritten(); }
  bool boolean(bool /*value*/) { return AddWritten(); }
  bool number_integer(std::int64_t /*value*/) { return AddWritten(); }
  bool number_unsigned(std::uint64_t /*value*/) { return AddWritten(); }
  bool number_float(double /*value*/, const std::string& /*text*/) { return AddWritten(); }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }  // not in JSON
  bool string(std::string& text) { return Add(Make(Kind::kString, Take().first, std::move(text))); }
  bool key(std::string& text) {
    Node& object = open_.back();
    object.keys.push_back({.source = &source_,
                           .key = object.key,
                           .kind = Kind::kString,
                           .at = Take().first,
                           .text = std::move(text)});
    return true;
  }
  bool start_object(std::size_t /*size*/) { return Open(Kind::kObject); }
  bool start_array(std::size_t /*size*/) { return Open(Kind::kArray); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool parse_error(std::size_t position,
                   const std::string& /*token*/,
                   const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..."
    std::string_view what = error.what();
    what.remove_prefix(what.find("] ") + 2);
    if (what.starts_with("parse error at")) {
      what.remove_prefix(what.find(": ") + 2);
    }
    throw Error(Code::kInvalidConfig,
                Cat(source_.PlaceOf(position - std::min<std::size_t>(position, 1)), ": no JSON"),
                Excerpt(what));
  }

 private:
  void SkipBlanks() {
    while (next_ < text_.size()) {
      if (text_.substr(next_).starts_with("//")) {
        next_ = text_.find('\n', next_);
      } else if (text_.substr(next_).starts_with("/*")) {
        next_ = text_.find("*/", next_ + 2) + 2;
      } else if (std::string_view(" \t\r\n,:").find(text_[next_]) != std::string_view::npos) {
        ++next_;
      } else {
        return;
      }
    }
  }

  // Returns where the next token begins and ends.
  std::pair<std::size_t, std::size_t> Take() {
    SkipBlanks();
    const std::size_t begin = next_++;
    const char first = text_[begin];
    if (first == '"') {
      while (text_[next_] != '"') {
        next_ += text_[next_] == '\\' ? 2 : 1;
      }
      ++next_;
    } else if (std::string_view("[]{}").find(first) == std::string_view::npos) {
      next_ = std::min(text_.find_first_of(" \t\r\n,:]}/", next_), text_.size());
    }
    return {begin, next_};
  }

  bool AddWritten() {
    const auto [begin, end] = Take();
    return Add(Make(Kind::kOther, begin, std::string(text_.substr(begin, end - begin))));
  }

  // Makes a value under the key of the object or array that holds it.
  [[nodiscard]] Node Make(Kind kind, std::size_t at, std::string text = {}) const {
    const Node& around = open_.back();
    return {.source = &source_,
            .key = around.kind == Kind::kObject ? around.keys.back().text : around.key,
            .kind = kind,
            .at = at,
            .text = std::move(text)};
  }

  bool Add(Node value) {
    open_.back().elements.push_back(std::move(value));
    return true;
  }

  bool Open(Kind kind) {
    open_.push_back(Make(kind, Take().first));
    if (open_.size() > 1 + kMaxDepth) {
      throw open_.back().Refused("nested too deep", Cat("allowed: ", kMaxDepth, " levels"));
    }
    return true;
  }

  bool Close() {
    static_cast<void>(Take());
    Node value = std::move(open_.back());
    open_.pop_back();
    return Add(std::move(value));
  }

  const SourceText& source_;
  std::string_view text_;
  std::size_t next_;
  std::vector<Node> open_;  // the first has one element: the file's value
};

}  // namespace

Node ParseDocument(const SourceText& source) {
  Builder builder(source);
  static_cast<void>(nlohmann::json::sax_parse(
      source.text, &builder, nlohmann::json::input_format_t::json, true, true));
  return builder.TakeRoot();
}

std::string SourceText::PlaceOf(std::size_t at) const {
  const std::string_view before = std::string_view(text).substr(0, at);
  const std::string_view in_line = before.substr(before.rfind('\n') + 1);
  return Format("{}:{}:{}",
                file,
                std::ranges::count(before, '\n') + 1,
                std::ranges::count_if(in_line, BeginsCharacter) + 1);
}

void Node::RequireKeys(std::initializer_list<std::string_view> known) const {
  if (kind != Kind::kObject) {
    throw Wrong(Cat("an object with ", Joined(known, ", ")));
  }
  for (const Node& name : keys) {
    if (!Contains(known, name.text)) {
      throw name.Refused(
          Format("unknown key '{}'{}", Excerpt(name.text), Suggestion(name.text, known)),
          Cat("allowed: ", Joined(known, ", ")));
    }
    const Node& first = *std::ranges::find(keys, name.text, &Node::text);
    if (&first != &name) {
      throw name.Refused(Format("'{}' stands twice", name.text), Cat("first at ", first.Place()));
    }
  }
}

const Node* Node::Find(std::string_view name) const {
  const auto found = std::ranges::find(keys, name, &Node::text);
  return found != keys.end() ? &elements[static_cast<std::size_t>(found - keys.begin())] : nullptr;
}

const Node& Node::Require(std::string_view name) const {
  const Node* const found = Find(name);
  return found != nullptr ? *found : throw Refused(Format("'{}' is missing", name));
}

const std::vector<Node>& Node::Keys() const {
  return kind == Kind::kObject ? keys : throw Wrong("an object");
}

const std::vector<Node>& Node::FindArray(std::string_view name, std::string_view some) const {
  static const std::vector<Node> kNone;
  const Node* const list = Find(name);
  if (list != nullptr && list->kind != Kind::kArray) {
    throw list->Wrong("an array");
  }
  if (list != nullptr && list->elements.empty() && !some.empty()) {
    throw list->Wrong(Cat("an array of at least one ", some));
  }
  return list != nullptr ? list->elements : kNone;
}

const std::string& Node::String(std::string_view allowed) const {
  return kind == Kind::kString ? text : throw Wrong(allowed);
}

bool Node::Bool() const {
  const bool is_true = text == "true";
  const bool is_bool = kind == Kind::kOther && (is_true || text == "false");
  return is_bool ? is_true : throw Wrong("true or false");
}

Error Node::Wrong(std::string_view allowed, std::string_view hint) const {
  const std::string shown = kind == Kind::kObject  ? "an object"
                            : kind == Kind::kArray ? "an array"
                            : kind == Kind::kOther ? Excerpt(text)
                                                   : Quoted(Excerpt(text));
  return Refused(Format("invalid '{}': {}{}", key, shown, hint), Cat("allowed: ", allowed));
}

Error Node::Refused(std::string_view msg, std::string details) const {
  return {Code::kInvalidConfig, Cat(Place(), ": ", msg), std::move(details)};
}

}  // namespace nomad_bridge::policy
