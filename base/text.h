// Text: joining it, and making strangers' text safe to keep.
//
// Shapes  Labels and file contents come from outside: any bytes, any length. What leaves through
//         here is valid UTF-8 without control characters, cut at a character's boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

namespace nomad_bridge {

// Cat("a ", 1, " b") is "a 1 b": anything a stream prints, joined.
template <typename... Parts>
[[nodiscard]] std::string Cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
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
