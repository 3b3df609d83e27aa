// Mounts something else over a file or directory, for as long as this object lives.
//
// Errors  std::runtime_error with what mount(8) printed.
#pragma once

#include "tests/support/test.h"

namespace nomad_bridge::test {

class Mounted {
 public:
  // As mount(8) takes them: Mounted({"--bind", file}, path).
  Mounted(const std::vector<std::string>& what, std::string path);
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;
  ~Mounted();

 private:
  std::string path_;
};

}  // namespace nomad_bridge::test
