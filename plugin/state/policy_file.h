// The policies in force: `policy apply` compiles them, and all commands read them until the next
// apply.
//
// Shape   /run/nomad-bridge/.policy: a line with the boot's id and the directory of the files, then
//         the program as policy/program.h writes it. The directory is "-" if its files named no
//         policies.
// Lives   on tmpfs; a file of another boot counts as absent. The content is kept once it is read.
// Locks   Written under the rules' lock.
// Errors  kIo if the file is damaged: what it refused must not be let in.
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

  // Returns whether policies were applied since the node booted.
  [[nodiscard]] bool IsThere() { return Read().is_there; }
  // Returns whether the files named policies, or an empty list of policies. A directory without
  // such files does not count.
  [[nodiscard]] bool AreApplied() { return !Directory().empty(); }
  // Returns the policies; empty if none were applied.
  [[nodiscard]] const policy::Program& Program() { return Read().program; }
  // Returns the directory of the applied files; empty if they named no policies.
  [[nodiscard]] const std::string& Directory() { return Read().directory; }
  // Makes the next call read the file again if another process has replaced it.
  void Refresh();
  // Writes the policies. `directory` has no line end in its name; it is empty if its files name no
  // policies.
  void Write(const policy::Program& program, const std::string& directory);

  // Returns an error whose details are `why` and the command to type.
  [[nodiscard]] static Error Damaged(std::string_view why);

  // Returns the file's text, even a damaged text, to restore it if the change after a Write()
  // fails.
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
  std::optional<struct stat> status_;  // the file's status when it was read
  bool is_read_ = false;
  Content content_;
};

}  // namespace nomad_bridge::state
