#include "plugin/takeover/legacy_save.h"

#include <algorithm>

namespace nomad_bridge::takeover {
namespace {

constexpr std::string_view kAppend = "-A ";

// Up to the next `end` that stands outside quotes, which is taken away too.
std::string_view TakeUntil(std::string_view& rest, char end) {
  bool is_quoted = false;
  std::size_t i = 0;
  for (; i < rest.size() && (is_quoted || rest[i] != end); ++i) {
    if (rest[i] == '"') {
      is_quoted = !is_quoted;
    } else if (rest[i] == '\\' && is_quoted) {
      ++i;  // the next one stands for itself
    }
  }
  const std::string_view taken = rest.substr(0, i);
  rest.remove_prefix(std::min(i + 1, rest.size()));
  return taken;
}

std::string Unquoted(std::string_view word) {
  std::string text;
  bool is_quoted = false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] == '"') {
      is_quoted = !is_quoted;
      continue;
    }
    i += word[i] == '\\' && is_quoted && i + 1 < word.size() ? 1 : 0;
    text += word[i];
  }
  return text;
}

LegacyRule ParseRule(std::string_view text) {
  LegacyRule rule{.chain = {}, .words = {}, .text = std::string(text)};
  rule.chain = Unquoted(TakeUntil(text, ' '));
  while (!text.empty()) {
    if (const std::string_view word = TakeUntil(text, ' '); !word.empty()) {
      rule.words.push_back(Unquoted(word));
    }
  }
  return rule;
}

}  // namespace

std::vector<LegacyRule> ParseLegacySave(std::string_view save) {
  std::vector<LegacyRule> rules;
  while (!save.empty()) {
    if (save.starts_with(kAppend)) {
      save.remove_prefix(kAppend.size());
      rules.push_back(ParseRule(TakeUntil(save, '\n')));
    } else {
      save.remove_prefix(std::min(save.find('\n'), save.size() - 1) + 1);
    }
  }
  return rules;
}

}  // namespace nomad_bridge::takeover
