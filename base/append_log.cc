#include "base/append_log.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

namespace nomad_bridge {
namespace {

constexpr std::size_t kMaxLineBytes = 4096;
// Below 1 MiB by sixteen lines: so many may be appended at once, each by a process that looked
// before.
constexpr off_t kMaxLogBytes = (1 << 20) - 16 * kMaxLineBytes;
constexpr std::size_t kMaxReadBytes = 4 << 20;

}  // namespace

AppendLog::AppendLog(const std::string& path) : path_(path) {}

void AppendLog::Append(std::string_view line, std::string_view lost) const {
  const UniqueFd log(
      ::open(path_.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!log && errno == ENOENT) {
    return;  // nobody reads it
  }
  struct stat status {};
  constexpr off_t kBlockBytes = 512;
  if (log && ::fstat(log.get(), &status) == 0 &&
      (status.st_blocks * kBlockBytes >= kMaxLogBytes || line.size() > kMaxLineBytes)) {
    return;
  }
  // In one call, so that no line is inside another one.
  if (!log || ::write(log.get(), line.data(), line.size()) != std::ssize(line)) {
    LogLine("cannot write to '{}' ({}), ignoring: the metrics may lack {}",
            path_,
            ErrnoText(errno),
            lost);
  }
}

AppendLog::Part AppendLog::Read(off_t from) const {
  const UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd && ::lseek(fd.get(), 0, SEEK_END) < from) {
    from = 0;
  }
  const off_t begin = fd ? ::lseek(fd.get(), from, SEEK_DATA) : -1;
  if (begin < 0) {
    if (errno == ENOENT || errno == ENXIO) {  // no log; nothing in it but a hole
      return {.end = from};
    }
    throw ErrnoError(Code::kIo, Format("cannot read '{}'", path_));
  }
  Part part{.lines = ReadAll(fd.get(), path_, kMaxReadBytes)};
  part.lines.resize(part.lines.rfind('\n') + 1);  // the last one may just be written
  part.end = begin + static_cast<off_t>(part.lines.size());
  return part;
}

FileLock AppendLog::Lock(const std::string& what) const {
  return FileLock::Take(path_, std::nullopt, LockKind::kCounts, what);
}

void AppendLog::Punch(const FileLock& lock, off_t end) {
  if (end > 0) {
    static_cast<void>(::fallocate(lock.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, end));
  }
}

}  // namespace nomad_bridge
