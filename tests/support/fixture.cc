#include "tests/support/fixture.h"

namespace nomad_bridge::test {

std::string ReadFixture(const std::string& path) {
  const std::string full = Cat(NOMAD_BRIDGE_FIXTURES, "/", path);
  const std::optional<std::string> content = FindFile(full);
  if (!content) {
    throw std::runtime_error(Cat("no fixture ", full));
  }
  return *content;
}

}  // namespace nomad_bridge::test
