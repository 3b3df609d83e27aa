// Text: joining it, and making strangers' text safe to keep.
//
// Shapes  Labels and file contents come from outside: any bytes, any length. What leaves through
//         here is valid UTF-8 without control characters, cut at a character's boundary.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nomad_bridge {

// A whole number, and no character or truth value.
template <typename T>
concept Number = std::integral<T> && sizeof(T) > 1;

inline void Append(std::string& text, std::string_view part) {
  text += part;
}
void Append(std::string& text, std::same_as<char> auto part) {
  text += part;
}
void Append(std::string& text, Number auto part) {
  text += std::to_string(part);
}
// What knows its own text: an address, a MAC.
template <typename Part>
requires requires(const Part& part) {
  part.Text();
}
void Append(std::string& text, const Part& part) {
  text += part.Text();
}

// Cat("a ", 1, " b") is "a 1 b": texts, characters, whole numbers and what has a Text(), joined. Not
// by a stream: an ADD joins hundreds of texts.
template <typename... Parts>
[[nodiscard]] std::string Cat(const Parts&... parts) {
  std::string text;
  (Append(text, parts), ...);
  return text;
}

// 'text' in the quotes that every message of ours uses round a name.
[[nodiscard]] std::string Quoted(std::string_view text);

// ASCII lower case; bytes above 127 stay as they are (JSON keys and CNI_ARGS keys are compared this
// way).
[[nodiscard]] std::string Lower(std::string_view text);

// At most `max_bytes` of `text`, never ending inside a UTF-8 character.
[[nodiscard]] std::string CutUtf8(std::string_view text, std::size_t max_bytes);

// `text` on one line that no output breaks on: invalid UTF-8 becomes '?', a control character a
// space, '"' and '\' become '\''. Used for link aliases and nf_tables comments.
[[nodiscard]] std::string Printable(std::string_view text);

// The beginning of `text`, printable: how a message shows what came from outside.
[[nodiscard]] std::string Excerpt(std::string_view text, std::size_t max_bytes = 160);

// `text` with '?' for every byte that is no part of well-formed UTF-8; what is kept in JSON comes
// back the same.
[[nodiscard]] std::string ValidUtf8(std::string_view text);

// True if `text` is well-formed UTF-8 (no overlong forms, no surrogates).
[[nodiscard]] bool IsUtf8(std::string_view text);

// A hash that is the same on every machine and in every version of ours (FNV-1a, 64 bits, finished
// with MurmurHash3's mixer): names and MACs are derived from it, so it must never change.
[[nodiscard]] std::uint64_t StableHash(std::string_view text);

// The lowest `digits` hexadecimal digits of `value`, lower case.
[[nodiscard]] std::string Hex(std::uint64_t value, int digits);

}  // namespace nomad_bridge
