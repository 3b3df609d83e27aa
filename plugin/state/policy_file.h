// The policies in force: what `policy apply` compiled, for all commands until the next one.
//
// Shape   /run/nomad-bridge/.policy: a line with the boot's id and the directory of the files, then
//         the program as policy/program.h writes it. The directory is "-" if its files named no
//         policies.
// Lives   on tmpfs; a file of another boot counts as absent. Once read it is kept.
// Locks   Written under the rules' lock.
// Errors  kIo for one that is damaged: what it refused must not be let in.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <sys/stat.h>

#include "base/error.h"
#include "plugin/policy/program.h"
#include "plugin/state/record.h"

namespace nomad_bridge::state {

class PolicyFile {
 public:
  explicit PolicyFile(std::string boot_id) : boot_id_(std::move(boot_id)) {}

  // Whether there was an apply since the node booted.
  [[nodiscard]] bool IsThere() { return Read().is_there; }
  // Whether it was of policies, or of files that say that there are none. A directory without such
  // files is neither.
  [[nodiscard]] bool AreApplied() { return !Directory().empty(); }
  // Empty if none were.
  [[nodiscard]] const policy::Program& Program() { return Read().program; }
  // Of the files that were applied; empty if none were.
  [[nodiscard]] const std::string& Directory() { return Read().directory; }
  // The next call reads the file again if another process has replaced it since.
  void Refresh();
  // A `directory` has no line end in its name; it is empty if its files name no policies.
  void Write(const policy::Program& program, const std::string& directory);

  // Whose details are `why`, and what to type.
  [[nodiscard]] static Error Damaged(std::string_view why);

  // The file as it is, damaged or not, to put it back if what a Write() is for fails.
  [[nodiscard]] static std::optional<std::string> FindText();
  void Restore(const std::optional<std::string>& text);

 private:
  struct Content {
    bool is_there = false;
    std::string directory;
    policy::Program program;
  };
  const Content& Read();
  [[nodiscard]] Content Parse(std::string_view text) const;

  std::string boot_id_;
  std::optional<struct stat> status_;  // of the file that was read
  bool is_read_ = false;
  Content content_;
};

}  // namespace nomad_bridge::state
