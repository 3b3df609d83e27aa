// The first member of a row in a value-parameterised suite: its name. gtest prints the row by this
// name, and ctest lists the case by it.
#pragma once

#include <cctype>

#include "tests/support/test.h"

namespace nomad_bridge::test {

struct Named {
  std::string_view name;
};

inline std::ostream& operator<<(std::ostream& out, const Named& row) {
  return out << row.name;
}

// For INSTANTIATE_TEST_SUITE_P.
constexpr auto kNameOf = [](const auto& info) { return std::string(info.param.name); };
// The same where a row is a text.
constexpr auto kNameOfText = [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](unsigned char letter) { return std::isalnum(letter) == 0; }, '_');
  return name;
};

}  // namespace nomad_bridge::test
