// An empty directory for one test, removed with all its content.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace nomad_bridge::test {

class ScratchDirectory {
 public:
  // The default is a tmpfs, as the data dir and /run of a node are. In a container nothing there
  // can be executed. The six X are mkdtemp(3)'s, which puts others in their place.
  explicit ScratchDirectory(const std::string& parent = "/dev/shm")
      : path_(parent + "/nomad-bridge-test-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "mkdtemp");
    }
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace nomad_bridge::test
