// The header that every test includes, parsed once (tests/CMakeLists.txt).
//
// It has GoogleTest with its matchers, common parts of the standard library, and errors and
// addresses as a test sees them.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/ip.h"
#include "base/text.h"

namespace nomad_bridge {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::_;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Ne;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

// Otherwise gtest would print the bytes of addresses.
inline std::ostream& operator<<(std::ostream& out, const Ip& ip) {
  return out << ip.Text();
}
inline std::ostream& operator<<(std::ostream& out, const Cidr& cidr) {
  return out << cidr.Text();
}
inline std::ostream& operator<<(std::ostream& out, const Mac& mac) {
  return out << mac.Text();
}
inline std::ostream& operator<<(std::ostream& out, const Error& error) {
  return out << static_cast<int>(error.code()) << ": " << error.what();
}

namespace test {

// Returns the Error that `act` throws. Fails the test if there is none.
template <typename Act>
[[nodiscard]] Error Caught(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Code::kInternal, "nothing was thrown"};
}

// EXPECT_THAT(Caught([] { ... }), IsError(Code::kIo, HasSubstr("lock")))
using TextMatcher = ::testing::Matcher<const std::string&>;
[[nodiscard]] inline ::testing::Matcher<const Error&> IsError(Code code,
                                                              const TextMatcher& msg = _,
                                                              const TextMatcher& details = _) {
  return AllOf(::testing::Property("code", &Error::code, code),
               ::testing::Property("msg", &Error::msg, msg),
               ::testing::Property("details", &Error::details, details));
}

}  // namespace test

using test::Caught;
using test::IsError;

}  // namespace nomad_bridge
