// Joining strings, and making foreign bytes safe to store and to print.
//
// Shapes     Input is any bytes of any length. Printable() and ValidUtf8() return well-formed UTF-8,
//            CutUtf8() keeps it well-formed.
// Errors     none
// Ownership  pure functions
// Source     Unicode 15, table 3-7 (well-formed UTF-8).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nomad_bridge {

// A string, a character, an integer, or what has a Text() (an address, a MAC).
template <typename Part>
void Append(std::string& text, const Part& part) {
  if constexpr (std::convertible_to<const Part&, std::string_view>) {
    text += std::string_view(part);
  } else if constexpr (std::same_as<Part, char>) {
    text += part;
  } else if constexpr (std::integral<Part> && sizeof(Part) > 1) {
    text += std::to_string(part);
  } else {
    text += part.Text();
  }
}

// Cat("a ", 1, " b") is "a 1 b". Not a stream: an ADD joins hundreds of strings.
template <typename... Parts>
[[nodiscard]] std::string Cat(const Parts&... parts) {
  std::string text;
  (Append(text, parts), ...);
  return text;
}

// The string in quotes, as around every name in our messages.
[[nodiscard]] std::string Quoted(std::string_view text);

// ASCII lower case, as JSON keys and CNI_ARGS keys are compared; bytes above 127 stay.
[[nodiscard]] std::string Lower(std::string_view text);

// At most `max_bytes` of `text`, never ending inside a UTF-8 character.
[[nodiscard]] std::string CutUtf8(std::string_view text, std::size_t max_bytes);

// One line for link aliases and nf_tables comments: invalid UTF-8 becomes '?', a control character a
// space, '"' and '\' become '\''.
[[nodiscard]] std::string Printable(std::string_view text);

// The beginning of `text`, printable, for messages.
[[nodiscard]] std::string Excerpt(std::string_view text, std::size_t max_bytes = 160);

// '?' for every byte that is not part of well-formed UTF-8; the rest stays, so that what is stored in
// JSON is read back unchanged.
[[nodiscard]] std::string ValidUtf8(std::string_view text);

// Well-formed: no overlong forms, no surrogates.
[[nodiscard]] bool IsUtf8(std::string_view text);

// FNV-1a, 64 bits, finished with MurmurHash3's mixer. Interface names and MACs are derived from it,
// so it must never change.
[[nodiscard]] std::uint64_t StableHash(std::string_view text);

// The lowest `digits` hexadecimal digits of `value`, lower case.
[[nodiscard]] std::string Hex(std::uint64_t value, int digits);

}  // namespace nomad_bridge
