// The commit of the sources that this program was built from. plugin/CMakeLists.txt writes the
// source at each build, in a library of its own: another commit compiles one small file.
#pragma once

#include <string_view>

namespace nomad_bridge::cli {

// Returns for example "61f9e5b0c1d2", with "+" if files had changed since, or "unknown".
[[nodiscard]] std::string_view BuildCommit();

}  // namespace nomad_bridge::cli
