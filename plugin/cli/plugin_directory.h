// A directory of CNI plugins, and which files in it are ours.
//
// Ours     A file, or the target of a link, that carries the mark which every build of this program
//          carries, and a link to "nomad-bridge" beside it, even if that is absent.
// Locks    flock(2) of the directory for as long as a PluginDirectory lives: two at a time would use the
//          same temporary names.
// Errors   kTryAgain if it is locked; kIo.
#pragma once

#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/fd.h"

namespace nomad_bridge::cli {

constexpr std::string_view kProgram = "nomad-bridge";
constexpr mode_t kProgramMode = 0755;
// Beside what replaced it, with ".2", ".3" ... if that exists.
constexpr std::string_view kKeptAs = ".before-nomad-bridge";

// The running program's file.
[[nodiscard]] std::string ReadSelf();

enum class Finding {
  kAbsent,
  kSame,  // as install would make it: `self`, or a link to it
  kOurs,
  kForeign,
  kDirectory,
};

// What is at `path` itself, not where a link leads to. `self`: the program, for a `path` that is to be it.
[[nodiscard]] Finding Inspect(const std::string& path, bool is_program, const std::string& self);

class PluginDirectory {
 public:
  // Has to exist and be writable.
  explicit PluginDirectory(const std::string& path);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::string Path(std::string_view name) const;

 private:
  std::string path_;
  UniqueFd fd_;
};

}  // namespace nomad_bridge::cli
