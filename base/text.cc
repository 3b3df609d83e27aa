#include "base/text.h"

#include <algorithm>
#include <array>

namespace nomad_bridge {
namespace {

constexpr bool IsContinuation(unsigned char byte) {
  return (byte & 0xc0) == 0x80;
}

// The well-formed characters by their first byte (Unicode, table 3-7): length and range of the second
// byte. All further bytes are continuations.
struct Encoding {
  unsigned char first_from;
  unsigned char first_to;
  std::size_t length;
  unsigned char second_from;
  unsigned char second_to;
};

constexpr std::array<Encoding, 9> kEncodings = {{{0x00, 0x7f, 1, 0x00, 0x00},
                                                 {0xc2, 0xdf, 2, 0x80, 0xbf},
                                                 {0xe0, 0xe0, 3, 0xa0, 0xbf},  // no overlong forms
                                                 {0xe1, 0xec, 3, 0x80, 0xbf},
                                                 {0xed, 0xed, 3, 0x80, 0x9f},  // no surrogates
                                                 {0xee, 0xef, 3, 0x80, 0xbf},
                                                 {0xf0, 0xf0, 4, 0x90, 0xbf},
                                                 {0xf1, 0xf3, 4, 0x80, 0xbf},
                                                 {0xf4, 0xf4, 4, 0x80, 0x8f}}};  // to U+10FFFF

// Length in bytes of the well-formed character at the start of `text`, or 0.
std::size_t CharacterLength(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto* const encoding = std::ranges::find_if(kEncodings, [&](const Encoding& each) {
    return at(0) >= each.first_from && at(0) <= each.first_to;
  });
  if (encoding == kEncodings.end() || text.size() < encoding->length) {
    return 0;
  }
  if (encoding->length > 1 && (at(1) < encoding->second_from || at(1) > encoding->second_to)) {
    return 0;
  }
  for (std::size_t i = 2; i < encoding->length; ++i) {
    if (!IsContinuation(at(i))) {
      return 0;
    }
  }
  return encoding->length;
}

// `text` with every character replaced by what `map` returns for it, and with '?' for every byte that
// is not part of a well-formed one.
std::string MapCharacters(std::string_view text, std::string_view (*map)(std::string_view)) {
  std::string mapped;
  mapped.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    mapped += length == 0 ? "?" : map(text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return mapped;
}

}  // namespace

std::string Quoted(std::string_view text) {
  return Cat('\'', text, '\'');
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

std::string CutUtf8(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return std::string(text);
  }
  std::size_t end = max_bytes;
  while (end > 0 && IsContinuation(static_cast<unsigned char>(text[end]))) {
    --end;
  }
  return std::string(text.substr(0, end));
}

std::string Printable(std::string_view text) {
  return MapCharacters(text, [](std::string_view character) -> std::string_view {
    const bool is_c1_control = character >= "\u0080" && character <= "\u009f";
    if (character[0] == '"' || character[0] == '\\') {
      return "'";
    }
    return character < " " || character == "\x7f" || is_c1_control ? " " : character;
  });
}

std::string Excerpt(std::string_view text, std::size_t max_bytes) {
  // A character more, so that none is invalid only because it was cut.
  return CutUtf8(Printable(text.substr(0, max_bytes + 4)), max_bytes);
}

std::string ValidUtf8(std::string_view text) {
  return MapCharacters(text, [](std::string_view character) { return character; });
}

bool IsUtf8(std::string_view text) {
  return ValidUtf8(text) == text;
}

std::uint64_t StableHash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

std::string Hex(std::uint64_t value, int digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(static_cast<std::size_t>(digits), '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, value >>= 4) {
    *digit = kDigits[value & 0xf];
  }
  return text;
}

}  // namespace nomad_bridge
