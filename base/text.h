// Joins strings, and makes bytes from outside safe to store and to print.
//
// Shapes     Input is any bytes of any length. Printable() and ValidUtf8() return well-formed
//            UTF-8, CutUtf8() keeps it well-formed.
// Errors     none
// Ownership  pure functions
// Source     Unicode 15, table 3-7 (well-formed UTF-8).
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace nomad_bridge {

// Appends a string, a character, an integer, or an object with a Text() function (an address, a
// MAC).
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

// Joins "a, b, c": `part_of` returns the text of each element.
template <typename List, typename PartOf = std::identity>
[[nodiscard]] std::string Joined(const List& list, std::string_view between, PartOf part_of = {}) {
  std::string text;
  for (const auto& each : list) {
    text += Cat(text.empty() ? "" : between, std::invoke(part_of, each));
  }
  return text;
}

// A string literal with one {} for each of `Parts`; anything else does not compile.
template <typename... Parts>
struct Pattern {
  template <std::size_t kSize>
  consteval Pattern(const char (&literal)[kSize]) : text(literal, kSize - 1) {
    std::size_t holes = 0;
    for (std::size_t at = 0; (at = text.find("{}", at)) != text.npos; at += 2) {
      ++holes;
    }
    if (holes != sizeof...(Parts)) {
      throw "as many {} as arguments";
    }
  }
  std::string_view text;
};

// Format("{} is '{}'", "mtu", 12) is "mtu is '12'": a substitute for std::format, which GCC has
// only from 13 on, as far as messages need it.
template <typename... Parts>
[[nodiscard]] std::string Format(Pattern<std::type_identity_t<Parts>...> pattern,
                                 const Parts&... parts) {
  std::string text;
  std::string_view rest = pattern.text;
  const auto append_next = [&](const auto& part) {
    const std::size_t hole = rest.find("{}");
    text += rest.substr(0, hole);
    Append(text, part);
    rest.remove_prefix(hole + 2);
  };
  (append_next(parts), ...);
  return text.append(rest);
}

// Returns the parts between the characters of `separators`, without empty ones: SplitFields(text,
// "\n") are the lines, SplitFields(line, " \t") the words. Does not use a stream: the first stream
// of a process sets up a locale, which takes some 2 % of an ADD's time in user space.
[[nodiscard]] std::vector<std::string> SplitFields(std::string_view text,
                                                   std::string_view separators);

// Removes the text before the next `end` and `end` itself, and returns the text; all of `rest` if
// there is no `end`.
[[nodiscard]] inline std::string_view TakeUntil(char end, std::string_view& rest) {
  const std::string_view taken = rest.substr(0, rest.find(end));
  rest.remove_prefix(std::min(taken.size() + 1, rest.size()));
  return taken;
}

// Returns all of `text` as a decimal number; nullopt for anything else, and for numbers beyond
// Number's range.
template <std::integral Number>
[[nodiscard]] std::optional<Number> FindNumber(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(number) : std::nullopt;
}

// Returns the string in quotes, as every name in our messages.
[[nodiscard]] std::string Quoted(std::string_view text);

// Returns one word of a command that people copy into a shell: in single quotes if it has
// characters that a shell interprets. Invalid UTF-8 and control characters become '?'.
[[nodiscard]] std::string ShellWord(std::string_view text);

// Returns the text in ASCII lower case, in which JSON keys and CNI_ARGS keys are compared; bytes
// above 127 stay.
[[nodiscard]] std::string Lower(std::string_view text);
[[nodiscard]] bool EqualIgnoringCase(std::string_view one, std::string_view other);

// Returns at most `max_bytes` of `text`. The result never ends inside a UTF-8 character.
[[nodiscard]] std::string CutUtf8(std::string_view text, std::size_t max_bytes);

// Returns one line for link aliases and nf_tables comments: invalid UTF-8 becomes '?', a control
// character a space, '"' and '\' become '\''.
[[nodiscard]] std::string Printable(std::string_view text);

// Returns the beginning of `text`, printable, for messages.
[[nodiscard]] std::string Excerpt(std::string_view text, std::size_t max_bytes = 160);

// Replaces every byte that is not part of well-formed UTF-8 by '?', so that text stored in JSON is
// read back unchanged.
[[nodiscard]] std::string ValidUtf8(std::string_view text);

// Returns false for the second and later bytes of a character.
[[nodiscard]] constexpr bool BeginsCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U;
}

// Returns whether the text is well-formed UTF-8: no overlong forms, no surrogates.
[[nodiscard]] bool IsUtf8(std::string_view text);

// Returns FNV-1a, 64 bits, finished with MurmurHash3's mixer. Interface names and MACs are derived
// from it, so it must never change.
[[nodiscard]] std::uint64_t StableHash(std::string_view text);

// Returns the lowest `digits` hexadecimal digits of `value`, in lower case.
[[nodiscard]] std::string Hex(std::uint64_t value, int digits);

}  // namespace nomad_bridge
