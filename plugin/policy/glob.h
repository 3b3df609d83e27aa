// Globs for names: '*' matches any characters, '?' one character. A backslash before one of them
// makes it match only itself.
//
// Shapes  Names are printable UTF-8 (base/text.h), which has no backslash; '?' matches a whole
//         character.
#pragma once

#include <string>
#include <string_view>

namespace nomad_bridge::policy {

[[nodiscard]] bool MatchesGlob(std::string_view glob, std::string_view text);
// Returns whether `text` is printable, apart from backslashes before '*' and '?'.
[[nodiscard]] bool IsGlob(std::string_view text);
// Returns the glob that matches only `text`.
[[nodiscard]] std::string Literally(std::string_view text);

}  // namespace nomad_bridge::policy
