// Small files, written whole or not at all: records, leases, installed programs.
//
// Shapes  any bytes; created with mode 0600, directories with 0755
// Errors  kIo, naming the path. "Absent" and "already there" are return values, not errors.
// Locks   none: writers of one path have to exclude each other.
// Source  open(2) O_TMPFILE, linkat(2), rename(2).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include "base/error.h"
#include "base/file_lock.h"

namespace nomad_bridge {

// Returns the whole content; nullopt if the file (or a directory on its path) does not exist.
// Throws kIo if the file has more than `max_bytes`.
[[nodiscard]] std::optional<std::string> FindFile(const std::string& path,
                                                  std::size_t max_bytes = 1 << 20);

// Returns what lstat(2) reports about `path`; nullopt if it (or a directory on its path) does not
// exist.
[[nodiscard]] std::optional<struct stat> FindStatus(const std::string& path);

// Reads `fd` to its end. Throws kIo naming `name` if more than `max_bytes` come, and kTryAgain if
// it has not ended by `deadline`.
[[nodiscard]] std::string ReadAll(int fd,
                                  const std::string& name,
                                  std::size_t max_bytes,
                                  std::optional<Deadline> deadline = std::nullopt);

// Writes all of `content` to `fd`. Throws kIo naming `name`.
void WriteAll(int fd, std::string_view content, const std::string& name);

// Like WriteAll(), but ignores errors: a closed log is no reason to fail.
void WriteBestEffort(int fd, std::string_view text);

// Creates `path` with `content`; another process sees all of it or no file. Returns false if `path`
// exists.
[[nodiscard]] bool CreateFile(const std::string& path, std::string_view content);

// Like CreateFile(), but removes a file that is there before. Several processes may do this at the
// same time with the same content, and a killed one leaves nothing else. For a moment there is no
// file.
void RecreateFile(const std::string& path, std::string_view content);

// Creates or replaces `path` in one step. Only one process may do this at a time. A leftover of a
// killed writer ("<path>.new") is overwritten, unless it is a symbolic link: that is an error.
void ReplaceFile(const std::string& path, std::string_view content);

// Throws unless this process may create files in `directory`, which has to exist. Does not check
// whether there is room for them.
void RequireWritable(const std::string& directory);

// Removes `path`. It is no error if `path` is absent.
void EnsureFileGone(const std::string& path);

// Returns the command that moves away whatever is in the place of our file `path`, so that nothing
// is lost.
[[nodiscard]] std::string MoveAway(const std::string& path);
// Returns Error(kIo, msg, details), with that command as its fix.
[[nodiscard]] Error InTheWayError(std::string msg,
                                  std::string_view details,
                                  const std::string& path);

// Like FindFile(), for a file of ours. If a directory is in its place, the error has the command of
// MoveAway(). A FIFO does not block us: without a writer it counts as empty, and a writer must
// close it within kTimeout.
[[nodiscard]] std::optional<std::string> FindOwnFile(const std::string& path,
                                                     std::size_t max_bytes = 1 << 20);

// Creates the directory and its parents.
void EnsureDirectory(const std::string& path);

// Returns the names in a directory, in no order, without "." and ".."; none if it does not exist.
[[nodiscard]] std::vector<std::string> Entries(const std::string& directory);

// Calls `look` with these names until `look` returns true.
void ForEachEntryUntil(const std::string& directory,
                       const std::function<bool(std::string_view)>& look);

}  // namespace nomad_bridge
