// Reads files of the project. fixtures/ has inputs and expected outputs; a file beside each names
// its origin.
#pragma once

#include "tests/support/test.h"

namespace nomad_bridge::test {

// Returns the absolute path of <path> in the project's sources.
[[nodiscard]] std::string ProjectPath(std::string_view path);

// The content of fixtures/<path>. Throws if there is none.
[[nodiscard]] std::string ReadFixture(const std::string& path);

}  // namespace nomad_bridge::test
