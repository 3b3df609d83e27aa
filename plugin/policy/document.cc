#include "plugin/policy/document.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/list.h"
#include "base/nearest.h"
#include "base/text.h"

namespace nomad_bridge::policy {
namespace {

using Kind = Document::Kind;
using Value = Document::Value;

// What policies need is six.
constexpr std::size_t kMaxDepth = 32;

// Builds the values of what the parser reports, token by token, and goes through the same text
// beside it: each token begins behind the one before, blanks, comments and separators.
class Builder {
 public:
  Builder(const Document& document, std::string_view text)
      : document_(document), text_(text), next_(text.starts_with("\xef\xbb\xbf") ? 3 : 0) {}

  [[nodiscard]] Value TakeRoot() { return std::move(root_); }

  // What nlohmann's parser calls; false ends it, but what is wrong is thrown.
  bool null() { return AddWritten(); }
  bool boolean(bool /*value*/) { return AddWritten(); }
  bool number_integer(std::int64_t /*value*/) { return AddWritten(); }
  bool number_unsigned(std::uint64_t /*value*/) { return AddWritten(); }
  bool number_float(double /*value*/, const std::string& /*text*/) { return AddWritten(); }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }  // not in JSON
  bool string(std::string& text) {
    return Add({.kind = Kind::kString, .at = Take().first, .text = std::move(text)});
  }
  bool key(std::string& text) {
    open_.back().keys.push_back(
        {.kind = Kind::kString, .at = Take().first, .text = std::move(text)});
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
                Cat(document_.PlaceOf(position - std::min<std::size_t>(position, 1)), ": no JSON"),
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

  // Where the next token begins and ends.
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
    return Add({.at = begin, .text = std::string(text_.substr(begin, end - begin))});
  }

  bool Add(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      open_.back().elements.push_back(std::move(value));
    }
    return true;
  }

  bool Open(Kind kind) {
    open_.push_back({.kind = kind, .at = Take().first});
    if (open_.size() > kMaxDepth) {
      throw Error(Code::kInvalidConfig,
                  Cat(document_.PlaceOf(open_.back().at), ": nested too deep"),
                  Cat("allowed: ", kMaxDepth, " levels"));
    }
    return true;
  }

  bool Close() {
    static_cast<void>(Take());
    Value value = std::move(open_.back());
    open_.pop_back();
    return Add(std::move(value));
  }

  const Document& document_;
  std::string_view text_;
  std::size_t next_;
  std::vector<Value> open_;
  Value root_;
};

}  // namespace

Document::Document(std::string file, std::string text)
    : file_(std::move(file)), text_(std::move(text)) {
  Builder builder(*this, text_);
  static_cast<void>(
      nlohmann::json::sax_parse(text_, &builder, nlohmann::json::input_format_t::json, true, true));
  root_ = builder.TakeRoot();
}

std::string Document::PlaceOf(std::size_t at) const {
  const std::string_view before = std::string_view(text_).substr(0, at);
  const std::string_view in_line = before.substr(before.rfind('\n') + 1);
  return Format("{}:{}:{}",
                file_,
                std::ranges::count(before, '\n') + 1,
                std::ranges::count_if(in_line, BeginsCharacter) + 1);
}

void Node::RequireKeys(std::initializer_list<std::string_view> known) const {
  if (kind() != Kind::kObject) {
    throw Wrong(Cat("an object with ", Joined(known, ", ")));
  }
  for (auto key = value_->keys.begin(); key != value_->keys.end(); ++key) {
    const Node node(*document_, *key, key_);
    if (!Contains(known, key->text)) {
      throw node.Refused(
          Format("unknown key '{}'{}", Excerpt(key->text), Suggestion(key->text, known)),
          Cat("allowed: ", Joined(known, ", ")));
    }
    const auto first = std::ranges::find(value_->keys, key->text, &Value::text);
    if (first != key) {
      throw node.Refused(Format("'{}' stands twice", key->text),
                         Cat("first at ", document_->PlaceOf(first->at)));
    }
  }
}

std::optional<Node> Node::Find(std::string_view key) const {
  const auto found = std::ranges::find(value_->keys, key, &Value::text);
  if (found == value_->keys.end()) {
    return std::nullopt;
  }
  const auto index = static_cast<std::size_t>(found - value_->keys.begin());
  return Node(*document_, value_->elements[index], key);
}

Node Node::Require(std::string_view key) const {
  const std::optional<Node> found = Find(key);
  return found ? *found : throw Refused(Format("'{}' is missing", key));
}

std::vector<Node> Node::UnderThis(const std::vector<Value>& values) const {
  std::vector<Node> nodes;
  nodes.reserve(values.size());
  for (const Value& value : values) {
    nodes.emplace_back(*document_, value, key_);
  }
  return nodes;
}

std::vector<Node> Node::Keys() const {
  return kind() == Kind::kObject ? UnderThis(value_->keys) : throw Wrong("an object");
}

std::vector<Node> Node::Elements() const {
  return kind() == Kind::kArray ? UnderThis(value_->elements) : throw Wrong("an array");
}

std::vector<Node> Node::SomeElements(std::string_view of_what) const {
  std::vector<Node> elements = Elements();
  return elements.empty() ? throw Wrong(Cat("an array of at least one ", of_what)) : elements;
}

const std::string& Node::String(std::string_view allowed) const {
  return kind() == Kind::kString ? text() : throw Wrong(allowed);
}

bool Node::Bool() const {
  const bool is_true = kind() == Kind::kOther && text() == "true";
  return is_true || (kind() == Kind::kOther && text() == "false") ? is_true
                                                                  : throw Wrong("true or false");
}

Error Node::Wrong(std::string_view allowed, std::string_view hint) const {
  const std::string shown = kind() == Kind::kObject  ? "an object"
                            : kind() == Kind::kArray ? "an array"
                            : kind() == Kind::kOther ? Excerpt(text())
                                                     : Quoted(Excerpt(text()));
  return Refused(Format("invalid '{}': {}{}", key_, shown, hint), Cat("allowed: ", allowed));
}

Error Node::Refused(std::string_view msg, std::string details) const {
  return {Code::kInvalidConfig, Cat(Place(), ": ", msg), std::move(details)};
}

}  // namespace nomad_bridge::policy
