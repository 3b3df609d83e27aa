#include "plugin/cli/install.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/cni/plugin_type.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::string_view kProgram = "nomad-bridge";
constexpr mode_t kProgramMode = 0755;

// Identifies our programs, also those of other versions; must never change.
constexpr std::string_view kMark =
    "\nThis file is the CNI plugin nomad-bridge, and may replace itself.\n";
constexpr std::size_t kMaxProgramBytes = 256 << 20;  // a build for debugging has some 50 MB
constexpr std::string_view kKeptAs = ".before-nomad-bridge";
constexpr std::string_view kTemporary = ".nomad-bridge.new";

enum class Finding { kAbsent, kDone, kOurs, kForeign, kDirectory };

// A name in the directory, and what is there before the installation.
struct Entry {
  std::string name;
  Finding finding = Finding::kAbsent;
};

// The directory we install into, locked.
class Directory {
 public:
  explicit Directory(const std::string& path)
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

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::string Path(std::string_view name) const { return Cat(path_, '/', name); }

 private:
  std::string path_;
  UniqueFd fd_;
};

std::string ReadSelf() {
  std::optional<std::string> self = FindFile("/proc/self/exe", kMaxProgramBytes);
  if (!self) {
    throw Error(Code::kIo, "cannot read this program", "is /proc mounted?");
  }
  return std::move(*self);
}

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

// What is at `path` itself, not where a link leads to.
Finding Inspect(const std::string& path, bool is_program, const std::string& self) {
  const std::optional<struct stat> status = FindStatus(path);
  if (!status) {
    return Finding::kAbsent;
  }
  if (S_ISDIR(status->st_mode)) {
    return Finding::kDirectory;
  }
  if (!is_program && FindLink(path) == kProgram) {
    return Finding::kDone;
  }
  const std::optional<std::string> program = FindProgram(path);
  if (is_program && status->st_mode == (S_IFREG | kProgramMode) && program == self) {
    return Finding::kDone;
  }
  return program && program->find(kMark) != program->npos ? Finding::kOurs : Finding::kForeign;
}

// Names everything that stands in the way at once.
void CheckAll(const Directory& directory, const std::vector<Entry>& entries, bool replace) {
  std::string foreign;
  for (const Entry& entry : entries) {
    if (entry.finding == Finding::kDirectory) {
      throw Error(Code::kConflict, Format("'{}' is a directory", directory.Path(entry.name)));
    }
    if (entry.finding == Finding::kForeign) {
      foreign += Cat(foreign.empty() ? "" : ", ", Quoted(directory.Path(entry.name)));
    }
  }
  if (!foreign.empty() && !replace) {
    throw Error(Code::kConflict,
                Cat("nothing was changed, as this is not ours: ", foreign),
                Cat("with --replace it is kept beside as <name>", kKeptAs));
  }
}

// Gives what is there a second name. link(2) never overwrites, so what was kept earlier stays.
std::string Keep(const Directory& directory, const std::string& name) {
  for (int number = 1;; ++number) {
    std::string kept = Cat(name, kKeptAs, number == 1 ? "" : Cat('.', number));
    if (::linkat(directory.fd(), name.c_str(), directory.fd(), kept.c_str(), 0) == 0) {
      return kept;
    }
    if (errno != EEXIST) {
      throw ErrnoError(Code::kIo, Format("cannot keep '{}' as '{}'", directory.Path(name), kept));
    }
  }
}

void WriteProgram(const Directory& directory, const std::string& self) {
  const std::string path = directory.Path(kTemporary);
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    throw ErrnoError(Code::kIo, Format("cannot create '{}'", path));
  }
  WriteAll(fd.get(), self, path);
  // Synced before it gets its name: after a power failure half a plugin is worse than none.
  if (::fchmod(fd.get(), kProgramMode) != 0 || ::fsync(fd.get()) != 0) {
    throw ErrnoError(Code::kIo, Format("cannot write '{}'", path));
  }
}

void WriteLink(const Directory& directory) {
  if (::symlinkat(kProgram.data(), directory.fd(), kTemporary.data()) != 0) {
    throw ErrnoError(Code::kIo, Format("cannot create the link '{}'", directory.Path(kTemporary)));
  }
}

// In one step: the name always exists.
void MoveInto(const Directory& directory, const std::string& name) {
  if (::renameat(directory.fd(), kTemporary.data(), directory.fd(), name.c_str()) != 0) {
    throw ErrnoError(Code::kIo, Format("cannot replace '{}'", directory.Path(name)));
  }
}

std::string What(const Entry& entry) {
  return entry.name == kProgram ? "this program" : Cat("link to ", kProgram);
}

void InstallEntry(const Directory& directory,
                  const Entry& entry,
                  const std::string& self,
                  int out) {
  const std::string path = directory.Path(entry.name);
  if (entry.finding == Finding::kDone) {
    WriteBestEffort(out, Format("{}: {}, as before\n", path, What(entry)));
    return;
  }
  std::string note = entry.finding == Finding::kOurs ? ", in place of an older one" : "";
  // A leftover of an install that was killed: we hold the lock.
  EnsureFileGone(directory.Path(kTemporary));
  try {
    if (entry.name == kProgram) {
      WriteProgram(directory, self);
    } else {
      WriteLink(directory);
    }
    if (entry.finding == Finding::kForeign) {
      note = Cat(", what was there is kept as ", Keep(directory, entry.name));
    }
    MoveInto(directory, entry.name);
  } catch (const Error&) {
    EnsureFileGone(directory.Path(kTemporary));
    throw;
  }
  WriteBestEffort(out, Cat(path, ": ", What(entry), note, '\n'));
}

}  // namespace

void Install(const Installation& installation, int out) {
  const std::string self = ReadSelf();
  EnsureDirectory(installation.directory);
  const Directory directory(installation.directory);

  std::vector<Entry> entries;
  for (const std::string& name : cni::PluginTypeNames()) {
    entries.push_back({name, Inspect(directory.Path(name), name == kProgram, self)});
  }
  CheckAll(directory, entries, installation.replace);

  // The program comes first in the list, so that no link ever leads nowhere.
  for (const Entry& entry : entries) {
    InstallEntry(directory, entry, self, out);
  }
}

}  // namespace nomad_bridge::cli
