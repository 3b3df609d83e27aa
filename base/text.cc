#include "base/text.h"

#include <algorithm>
#include <array>
#include <bit>

namespace nomad_bridge {
namespace {

char LowerOf(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Length in bytes of the well-formed character at the start of `text`, or 0 (Unicode, table 3-7).
std::size_t CharacterLength(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) {
    return 1;
  }
  // The number of one-bits at the start of the first byte; a single one-bit begins no character.
  const auto length = static_cast<std::size_t>(std::countl_one(first));
  if (length < 2 || length > 4 || text.size() < length) {
    return 0;
  }
  char32_t character = first & (0x7fU >> length);
  for (const char c : text.substr(1, length - 1)) {
    const auto byte = static_cast<unsigned char>(c);
    if (BeginsCharacter(c)) {
      return 0;
    }
    character = character << 6 | (byte & 0x3fU);
  }
  // The first character of each length: excludes overlong forms.
  constexpr std::array<char32_t, 5> kLowest = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
  return character >= kLowest.at(length) && character <= 0x10ffff && !is_surrogate ? length : 0;
}

bool IsControl(std::string_view character) {
  const bool is_c1 = character >= "\u0080" && character <= "\u009f";
  return character < " " || character == "\x7f" || is_c1;
}

// Returns `text` with each character replaced by what `map` returns, and '?' for each byte that
// belongs to no well-formed character.
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

std::vector<std::string> SplitFields(std::string_view text, std::string_view separators) {
  std::vector<std::string> fields;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
    if (text.empty()) {
      return fields;
    }
    fields.emplace_back(text.substr(0, text.find_first_of(separators)));
    text.remove_prefix(fields.back().size());
  }
}

std::string Quoted(std::string_view text) {
  return Cat('\'', text, '\'');
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), LowerOf);
  return lower;
}

bool EqualIgnoringCase(std::string_view one, std::string_view other) {
  return std::ranges::equal(one, other, {}, LowerOf, LowerOf);
}

std::string CutUtf8(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return std::string(text);
  }
  std::size_t end = max_bytes;
  while (end > 0 && !BeginsCharacter(text[end])) {
    --end;
  }
  return std::string(text.substr(0, end));
}

std::string ShellWord(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) {
    return std::string(text);
  }
  return Quoted(MapCharacters(text, [](std::string_view character) -> std::string_view {
    return character == "'" ? R"('\'')" : IsControl(character) ? "?" : character;
  }));
}

std::string Printable(std::string_view text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, is_plain)) {  // nearly always; each ADD's comments pass here
    return std::string(text);
  }
  return MapCharacters(text, [](std::string_view character) -> std::string_view {
    if (character[0] == '"' || character[0] == '\\') {
      return "'";
    }
    return IsControl(character) ? " " : character;
  });
}

std::string Excerpt(std::string_view text, std::size_t max_bytes) {
  // One character more, so that no character is invalid only because it was cut.
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
