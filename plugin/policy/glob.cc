#include "plugin/policy/glob.h"

#include "base/text.h"

namespace nomad_bridge::policy {
namespace {

constexpr std::string_view kSpecial = "*?";

// The next element of a glob: '*', '?', or a literal byte.
struct Element {
  char byte = 0;
  bool is_literal = true;
  std::size_t size = 1;  // in the glob

  [[nodiscard]] bool Is(char special) const { return !is_literal && byte == special; }
};

Element ElementAt(std::string_view glob, std::size_t at) {
  if (glob[at] == '\\' && at + 1 < glob.size()) {
    return {.byte = glob[at + 1], .size = 2};
  }
  return {.byte = glob[at], .is_literal = glob[at] != '*' && glob[at] != '?'};
}

// Returns the number of bytes that `element` matches at `at` in `text`; 0 if it does not match.
std::size_t Matched(const Element& element, std::string_view text, std::size_t at) {
  if (element.is_literal) {
    return element.byte == text[at] ? 1 : 0;
  }
  std::size_t bytes = 1;
  while (at + bytes < text.size() && !BeginsCharacter(text[at + bytes])) {
    ++bytes;
  }
  return bytes;
}

}  // namespace

// Backtracks to the last '*' only: backtracking to an earlier one could not match more.
bool MatchesGlob(std::string_view glob, std::string_view text) {
  std::size_t at = 0;
  std::size_t star = glob.npos;
  std::size_t resumed = 0;  // where in `text` the part after the last '*' was tried
  for (std::size_t i = 0; i < text.size();) {
    const Element element = at < glob.size() ? ElementAt(glob, at) : Element{.size = 0};
    if (element.Is('*')) {
      star = at++;
      resumed = i;
      continue;
    }
    const std::size_t bytes = element.size != 0 ? Matched(element, text, i) : 0;
    if (bytes != 0) {
      i += bytes;
      at += element.size;
    } else if (star != glob.npos) {
      at = star + 1;
      i = ++resumed;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', at) == glob.npos;
}

bool IsGlob(std::string_view text) {
  std::string rest;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_escape = text[at] == '\\' &&
                           kSpecial.find(text[at + 1 < text.size() ? at + 1 : at]) != kSpecial.npos;
    rest += text[is_escape ? ++at : at];
  }
  return Printable(rest) == rest;
}

std::string Literally(std::string_view text) {
  std::string glob;
  for (const char byte : text) {
    if (kSpecial.find(byte) != kSpecial.npos) {
      glob += '\\';
    }
    glob += byte;
  }
  return glob;
}

}  // namespace nomad_bridge::policy
