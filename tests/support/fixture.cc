#include "tests/support/fixture.h"

namespace nomad_bridge::test {

std::string ProjectPath(std::string_view path) {
  return Cat(NOMAD_BRIDGE_PROJECT, "/", path);
}

std::string ReadFixture(const std::string& path) {
  const std::string full = ProjectPath(Cat("fixtures/", path));
  const std::optional<std::string> content = FindFile(full);
  if (!content) {
    throw std::runtime_error(Cat("no fixture ", full));
  }
  return *content;
}

}  // namespace nomad_bridge::test
