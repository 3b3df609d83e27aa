// What the rows of a value-parameterised suite begin with: their name, by which gtest prints them
// and ctest lists the case.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace nomad_bridge::test {

struct Named {
  std::string_view name;
};

inline std::ostream& operator<<(std::ostream& out, const Named& row) {
  return out << row.name;
}

// For INSTANTIATE_TEST_SUITE_P.
constexpr auto kNameOf = [](const auto& info) { return std::string(info.param.name); };

}  // namespace nomad_bridge::test
