// How tests print addresses. It is among the headers that every test includes (tests/CMakeLists.txt),
// so that gtest never prints their bytes.
#pragma once

#include <ostream>

#include "base/ip.h"

namespace nomad_bridge {

inline std::ostream& operator<<(std::ostream& out, const Ip& ip) {
  return out << ip.Text();
}
inline std::ostream& operator<<(std::ostream& out, const Cidr& cidr) {
  return out << cidr.Text();
}
inline std::ostream& operator<<(std::ostream& out, const Mac& mac) {
  return out << mac.Text();
}

}  // namespace nomad_bridge
