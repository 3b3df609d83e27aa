#include "plugin/cli/install.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>
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

// What our files are known by: it must never change.
constexpr std::string_view kMark =
    "\nThis file is the CNI plugin nomad-bridge, and may replace itself.\n";
constexpr std::size_t kMaxProgramBytes = 256 << 20;  // a build for debugging has some 50 MB
constexpr std::string_view kKeptAs = ".before-nomad-bridge";
constexpr std::string_view kTemporary = ".nomad-bridge.new";

enum class Finding { kAbsent, kDone, kOurs, kForeign, kFolder };

// A name in the folder, and what is there now.
struct Location {
  std::string name;
  Finding finding = Finding::kAbsent;
};

// The folder we install into, alone.
class Folder {
 public:
  explicit Folder(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (!fd_) {
      throw ErrnoError(Code::kIo, Cat("cannot open the folder ", Quoted(path)));
    }
    if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      throw ErrnoError(errno == EWOULDBLOCK ? Code::kTryAgain : Code::kIo,
                       Cat("cannot lock ", Quoted(path), ": is another install at work there?"));
    }
    if (::faccessat(fd_.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
      throw ErrnoError(Code::kIo, Cat("cannot write into the folder ", Quoted(path)));
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

// The text of a link; nullopt if `path` is none.
std::optional<std::string> FindLink(const std::string& path) {
  std::array<char, 4096> text;
  const ssize_t length = ::readlink(path.c_str(), text.data(), text.size());
  return length < 0 ? std::nullopt
                    : std::optional(std::string(text.data(), static_cast<std::size_t>(length)));
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

bool IsOurs(const std::optional<std::string>& program) {
  return program && program->find(kMark) != program->npos;
}

// What stands at `path`, itself and not where it leads to. nullopt: nothing.
std::optional<mode_t> ModeOf(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) {
    return info.st_mode;
  }
  if (errno == ENOENT) {
    return std::nullopt;
  }
  throw ErrnoError(Code::kIo, Cat("cannot look at ", Quoted(path)));
}

// `is_done` is asked about what is there and no folder.
Finding LookAt(const std::string& path, const std::function<bool(mode_t)>& is_done) {
  const std::optional<mode_t> mode = ModeOf(path);
  if (!mode) {
    return Finding::kAbsent;
  }
  if (S_ISDIR(*mode)) {
    return Finding::kFolder;
  }
  if (is_done(*mode)) {
    return Finding::kDone;
  }
  return IsOurs(FindProgram(path)) ? Finding::kOurs : Finding::kForeign;
}

Finding LookAtProgram(const std::string& path, const std::string& self) {
  return LookAt(path, [&](mode_t mode) {
    return mode == (S_IFREG | kProgramMode) && FindProgram(path) == self;
  });
}

Finding LookAtLink(const std::string& path) {
  return LookAt(path, [&](mode_t) { return FindLink(path) == kProgram; });
}

// Everything that stands in the way is named at once.
void CheckAll(const Folder& folder, const std::vector<Location>& places, bool replace) {
  std::string foreign;
  for (const Location& place : places) {
    if (place.finding == Finding::kFolder) {
      throw Error(Code::kConflict, Cat(Quoted(folder.Path(place.name)), " is a folder"));
    }
    if (place.finding == Finding::kForeign) {
      foreign += Cat(foreign.empty() ? "" : ", ", Quoted(folder.Path(place.name)));
    }
  }
  if (!foreign.empty() && !replace) {
    throw Error(Code::kConflict,
                Cat("nothing was changed, as this is not ours: ", foreign),
                Cat("with --replace it is kept beside as <name>", kKeptAs));
  }
}

// A second name for what is there. link(2) never overwrites, so what was kept earlier stays.
std::string Keep(const Folder& folder, const std::string& name) {
  for (int number = 1;; ++number) {
    std::string kept = Cat(name, kKeptAs, number == 1 ? "" : Cat('.', number));
    if (::linkat(folder.fd(), name.c_str(), folder.fd(), kept.c_str(), 0) == 0) {
      return kept;
    }
    if (errno != EEXIST) {
      throw ErrnoError(Code::kIo,
                       Cat("cannot keep ", Quoted(folder.Path(name)), " as ", Quoted(kept)));
    }
  }
}

void WriteProgram(const Folder& folder, const std::string& self) {
  const std::string path = folder.Path(kTemporary);
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    throw ErrnoError(Code::kIo, Cat("cannot create ", Quoted(path)));
  }
  WriteAll(fd.get(), self, path);
  // On the disk before it has its name: after a power failure half a plugin is worse than none.
  if (::fchmod(fd.get(), kProgramMode) != 0 || ::fsync(fd.get()) != 0) {
    throw ErrnoError(Code::kIo, Cat("cannot write ", Quoted(path)));
  }
}

void WriteLink(const Folder& folder) {
  if (::symlinkat(kProgram.data(), folder.fd(), kTemporary.data()) != 0) {
    throw ErrnoError(Code::kIo, Cat("cannot make the link ", Quoted(folder.Path(kTemporary))));
  }
}

// In one step: at no time is there nothing under that name.
void MoveInto(const Folder& folder, const std::string& name) {
  if (::renameat(folder.fd(), kTemporary.data(), folder.fd(), name.c_str()) != 0) {
    throw ErrnoError(Code::kIo, Cat("cannot replace ", Quoted(folder.Path(name))));
  }
}

std::string What(const Location& place) {
  return place.name == kProgram ? "this program" : Cat("link to ", kProgram);
}

void InstallEntry(const Folder& folder, const Location& place, const std::string& self, int out) {
  const std::string path = folder.Path(place.name);
  if (place.finding == Finding::kDone) {
    WriteBestEffort(out, Cat(path, ": ", What(place), ", as before\n"));
    return;
  }
  std::string note = place.finding == Finding::kOurs ? ", in place of an older one" : "";
  // A leftover of an install that was killed; nobody else is at work here.
  EnsureFileGone(folder.Path(kTemporary));
  try {
    if (place.name == kProgram) {
      WriteProgram(folder, self);
    } else {
      WriteLink(folder);
    }
    if (place.finding == Finding::kForeign) {
      note = Cat(", what was there is kept as ", Keep(folder, place.name));
    }
    MoveInto(folder, place.name);
  } catch (const Error&) {
    EnsureFileGone(folder.Path(kTemporary));
    throw;
  }
  WriteBestEffort(out, Cat(path, ": ", What(place), note, '\n'));
}

}  // namespace

void Install(const Installation& wanted, int out) {
  const std::string self = ReadSelf();
  EnsureDirectory(wanted.folder);
  const Folder folder(wanted.folder);

  std::vector<Location> places;
  for (const std::string& name : cni::PluginTypeNames()) {
    const std::string path = folder.Path(name);
    places.push_back({name, name == kProgram ? LookAtProgram(path, self) : LookAtLink(path)});
  }
  CheckAll(folder, places, wanted.replace);

  // The program first: no link ever leads nowhere.
  for (const Location& place : places) {
    InstallEntry(folder, place, self, out);
  }
}

}  // namespace nomad_bridge::cli
