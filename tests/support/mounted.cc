#include "tests/support/mounted.h"

#include <sys/mount.h>

#include "tests/support/process.h"

namespace nomad_bridge::test {

Mounted::Mounted(const std::vector<std::string>& what, std::string path) : path_(std::move(path)) {
  std::vector<std::string> argv = {"mount"};
  argv.insert(argv.end(), what.begin(), what.end());
  argv.push_back(path_);
  Must({.argv = argv, .input = "", .variables = {}});
}

Mounted::~Mounted() {
  ::umount2(path_.c_str(), MNT_DETACH);
}

}  // namespace nomad_bridge::test
