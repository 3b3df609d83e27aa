#include "base/file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

namespace nomad_bridge {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr mode_t kDirectoryMode = 0755;

std::string ParentOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// A new file in a directory: without a name or, if the file system does not support that (overlayfs
// before Linux 6.1), with a random name that the destructor removes.
class FreshFile {
 public:
  // `what` completes "cannot create ...".
  FreshFile(const std::string& directory, const std::string& what)
      : fd_(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kFileMode)) {
    // EISDIR: a kernel or file system that does not know the flag.
    if (!fd_ && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
      // A hidden name is neither a lease nor a record to readers of the directory. mkostemp(3)
      // needs six X, and replaces them.
      name_ = Cat(directory, "/.nomad-bridge-XXXXXX");
      fd_ = UniqueFd(::mkostemp(name_.data(), O_CLOEXEC));
    }
    if (!fd_) {
      throw ErrnoError(Code::kIo, Cat("cannot create ", what));
    }
  }
  FreshFile(const FreshFile&) = delete;
  FreshFile& operator=(const FreshFile&) = delete;
  ~FreshFile() {
    if (!name_.empty()) {
      ::unlink(name_.c_str());
    }
  }

  [[nodiscard]] int fd() const { return fd_.get(); }
  // Like link(2), fails with EEXIST if `path` exists.
  [[nodiscard]] int LinkTo(const std::string& path) const {
    const std::string self = name_.empty() ? Cat("/proc/self/fd/", fd_.get()) : name_;
    return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW);
  }

 private:
  UniqueFd fd_;
  std::string name_;
};

// Returns when read(2) would not block.
void AwaitReadable(int fd, const std::string& name, Deadline deadline) {
  using std::chrono::milliseconds;
  pollfd ready{.fd = fd, .events = POLLIN};
  int count = 0;
  do {
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    count = ::poll(&ready, 1, static_cast<int>(std::max(left, milliseconds(0)).count()));
  } while (count < 0 && errno == EINTR);
  if (count == 0) {
    throw Error(
        Code::kTryAgain, Format("timed out reading '{}'", name), "its writer has not closed it");
  }
}

enum class Whose { kOurs, kOperators };

[[noreturn]] void ThrowUnread(const std::string& name, Whose whose) {
  const int error = errno;
  std::string what = Format("cannot read '{}'", name);
  if (error == EISDIR && whose == Whose::kOurs) {
    throw InTheWayError(std::move(what), ErrnoText(error), name);
  }
  throw Error(Code::kIo, std::move(what), ErrnoText(error));
}

std::string ReadToEnd(int fd,
                      const std::string& name,
                      std::size_t max_bytes,
                      std::optional<Deadline> deadline,
                      Whose whose) {
  std::string content;
  std::array<char, 16384> buffer;
  for (;;) {
    if (deadline) {
      AwaitReadable(fd, name, *deadline);
    }
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0 && errno == EAGAIN && whose == Whose::kOurs && !deadline) {
      deadline = FromNow(kTimeout);
      continue;
    }
    if (got < 0) {
      ThrowUnread(name, whose);
    }
    if (got == 0) {
      return content;
    }
    content.append(buffer.data(), static_cast<std::size_t>(got));
    if (content.size() > max_bytes) {
      throw Error(
          Code::kIo, Format("cannot read '{}'", name), Cat("longer than ", max_bytes, " bytes"));
    }
  }
}

std::optional<std::string> FindAt(const std::string& path, std::size_t max_bytes, Whose whose) {
  const int mode = whose == Whose::kOurs ? O_NONBLOCK : 0;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | mode));
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return std::nullopt;
    }
    throw ErrnoError(Code::kIo, Format("cannot open '{}'", path));
  }
  return ReadToEnd(fd.get(), path, max_bytes, std::nullopt, whose);
}

}  // namespace

std::optional<std::string> FindFile(const std::string& path, std::size_t max_bytes) {
  return FindAt(path, max_bytes, Whose::kOperators);
}

std::optional<std::string> FindOwnFile(const std::string& path, std::size_t max_bytes) {
  return FindAt(path, max_bytes, Whose::kOurs);
}

std::optional<struct stat> FindStatus(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    return status;
  }
  if (errno == ENOENT || errno == ENOTDIR) {
    return std::nullopt;
  }
  throw ErrnoError(Code::kIo, Format("cannot look at '{}'", path));
}

std::string ReadAll(int fd,
                    const std::string& name,
                    std::size_t max_bytes,
                    std::optional<Deadline> deadline) {
  return ReadToEnd(fd, name, max_bytes, deadline, Whose::kOperators);
}

void WriteAll(int fd, std::string_view content, const std::string& name) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      throw ErrnoError(Code::kIo, Format("cannot write '{}'", name));
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

void WriteBestEffort(int fd, std::string_view text) {
  try {
    WriteAll(fd, text, "the log");
  } catch (const Error&) {
    // There is nowhere to report the error.
  }
}

bool CreateFile(const std::string& path, std::string_view content) {
  // The file gets its name only when it is complete.
  const FreshFile file(ParentOf(path), Quoted(path));
  WriteAll(file.fd(), content, path);
  if (file.LinkTo(path) == 0) {
    return true;
  }
  if (errno == EEXIST) {
    return false;
  }
  throw ErrnoError(Code::kIo, Format("cannot create '{}'", path));
}

void RecreateFile(const std::string& path, std::string_view content) {
  EnsureFileGone(path);
  static_cast<void>(CreateFile(path, content));  // another process may have been faster
}

void ReplaceFile(const std::string& path, std::string_view content) {
  const std::string fresh = path + ".new";
  const UniqueFd fd(::open(fresh.c_str(),
                           O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                           kFileMode));
  if (!fd) {
    throw ErrnoError(Code::kIo, Format("cannot create '{}'", path));
  }
  try {
    WriteAll(fd.get(), content, path);
    if (::rename(fresh.c_str(), path.c_str()) != 0) {
      throw ErrnoError(Code::kIo, Format("cannot replace '{}'", path));
    }
  } catch (const Error&) {
    ::unlink(fresh.c_str());
    throw;
  }
}

void RequireWritable(const std::string& directory) {
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    throw ErrnoError(Code::kIo, Format("cannot write to '{}'", directory));
  }
}

void EnsureFileGone(const std::string& path) {
  // ENAMETOOLONG: such a file cannot exist.
  if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG) {
    throw ErrnoError(Code::kIo, Format("cannot remove '{}'", path));
  }
}

std::string MoveAway(const std::string& path) {
  return Format("mv --backup=numbered {} /var/tmp/", ShellWord(path));
}

Error InTheWayError(std::string msg, std::string_view details, const std::string& path) {
  const std::string command = MoveAway(path);
  return {Code::kIo, std::move(msg), Cat(details, "; move it away: ", command), command};
}

void EnsureDirectory(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return;
  }
  const auto create = [&] { return ::mkdir(path.c_str(), kDirectoryMode) == 0 ? 0 : errno; };
  int error = create();
  if (const std::size_t slash = path.rfind('/');
      error == ENOENT && slash != path.npos && slash > 0) {
    EnsureDirectory(path.substr(0, slash));
    error = create();
  }
  if (error == 0 ||
      (error == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))) {
    return;
  }
  if (error == EEXIST && !FindStatus(path)) {
    return EnsureDirectory(path);  // another command has removed it meanwhile
  }
  std::string what = Format("cannot create the directory '{}'", path);
  if (error == EEXIST) {
    throw InTheWayError(std::move(what), "it exists and is not a directory", path);
  }
  throw Error(Code::kIo, std::move(what), ErrnoText(error));
}

std::vector<std::string> Entries(const std::string& directory) {
  std::vector<std::string> names;
  ForEachEntryUntil(directory, [&](std::string_view name) {
    names.emplace_back(name);
    return false;
  });
  return names;
}

void ForEachEntryUntil(const std::string& directory,
                       const std::function<bool(std::string_view)>& look) {
  const auto close_directory = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close_directory)> open(::opendir(directory.c_str()),
                                                             close_directory);
  if (open == nullptr) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return;
    }
    throw ErrnoError(Code::kIo, Format("cannot list '{}'", directory));
  }
  while (const dirent* const entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && look(name)) {
      return;
    }
  }
}

}  // namespace nomad_bridge
