// A root file system of a test: one of the releases that tests/packages/prepare made, or an empty
// one, with what is written into it kept in memory; programs in it run in the network and with the
// /run of the test.
//
// Lives   in the mount namespace of the test program, at most one at a time. /run is bound as it is
//         when the root is made, so containers of the test come first.
// Errors  std::runtime_error with what a program printed.
#pragma once

#include "tests/support/config.h"
#include "tests/support/process.h"
#include "tests/support/test.h"

namespace nomad_bridge::test {

// A file that packaging/build-release made: "nomad-bridge_<version>_amd64.deb", by what it begins
// and ends with. "next" has the same packages with a higher version.
[[nodiscard]] std::string ReleaseFile(const std::string& begin,
                                      const std::string& end,
                                      const std::string& directory = "one");

class Root {
 public:
  // "bullseye", "bookworm", "trixie", "release", "rpm"; "": empty.
  explicit Root(const std::string& release);
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ~Root();

  // A path in it as it is outside.
  [[nodiscard]] std::string Path(const std::string& path) const;
  // `command` as it would run in it.
  [[nodiscard]] Command In(Command command) const;
  [[nodiscard]] Outcome Run(const std::vector<std::string>& argv,
                            const Variables& variables = {}) const;
  // A copy of a file from outside.
  void Put(const std::string& file, const std::string& path) const;
  // Every file and link, but for what package managers keep for themselves.
  [[nodiscard]] std::vector<std::string> Files() const;
};

}  // namespace nomad_bridge::test
