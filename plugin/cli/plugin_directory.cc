#include "plugin/cli/plugin_directory.h"

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge::cli {
namespace {

// Identifies our programs, also those of other versions; must never change.
constexpr std::string_view kMark =
    "\nThis file is the CNI plugin nomad-bridge, and may replace itself.\n";
constexpr std::size_t kMaxProgramBytes = 256 << 20;  // a build for debugging has some 50 MB

// The target of a link; nullopt if `path` is none.
std::optional<std::string> FindLink(const std::string& path) {
  std::array<char, 4096> target;
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length < 0 ? std::nullopt
                    : std::optional(std::string(target.data(), static_cast<std::size_t>(length)));
}

// The content of what a runtime would execute as `path`; nullopt if that is no file.
std::optional<std::string> FindProgram(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_size > static_cast<off_t>(kMaxProgramBytes)) {
    return std::nullopt;
  }
  return FindFile(path, kMaxProgramBytes);
}

}  // namespace

std::string ReadSelf() {
  std::optional<std::string> self = FindFile("/proc/self/exe", kMaxProgramBytes);
  if (!self) {
    throw Error(Code::kIo, "cannot read this program", "is /proc mounted?");
  }
  return std::move(*self);
}

Finding Inspect(const std::string& path, bool is_program, const std::string& self) {
  const std::optional<struct stat> status = FindStatus(path);
  if (!status) {
    return Finding::kAbsent;
  }
  if (S_ISDIR(status->st_mode)) {
    return Finding::kDirectory;
  }
  if (!is_program && FindLink(path) == kProgram) {
    return Finding::kSame;
  }
  const std::optional<std::string> program = FindProgram(path);
  if (is_program && status->st_mode == (S_IFREG | kProgramMode) && program == self) {
    return Finding::kSame;
  }
  return program && program->find(kMark) != program->npos ? Finding::kOurs : Finding::kForeign;
}

PluginDirectory::PluginDirectory(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!fd_) {
    throw ErrnoError(Code::kIo, Format("cannot open the directory '{}'", path));
  }
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    throw ErrnoError(errno == EWOULDBLOCK ? Code::kTryAgain : Code::kIo,
                     Format("cannot lock '{}': is another install at work there?", path));
  }
  if (::faccessat(fd_.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    throw ErrnoError(Code::kIo, Format("cannot write into the directory '{}'", path));
  }
}

std::string PluginDirectory::Path(std::string_view name) const {
  return Cat(path_, '/', name);
}

}  // namespace nomad_bridge::cli
