// Small files, whole or not at all: records, leases, sysctls.
//
// Errors  Code::kIo, naming the path. "Absent" and "already there" are answers, not errors.
// Source  open(2) O_TMPFILE, linkat(2), rename(2).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nomad_bridge {

// The whole content, or nullopt if the file (or a folder on its path) does not exist. Throws kIo if
// it holds more than `max_bytes`.
[[nodiscard]] std::optional<std::string> FindFile(const std::string& path,
                                                  std::size_t max_bytes = 1 << 20);

// Reads `fd` to its end. Throws kIo naming `name` if more than `max_bytes` come.
[[nodiscard]] std::string ReadAll(int fd, const std::string& name, std::size_t max_bytes);

// Writes all of `content` into `fd`. Throws kIo naming `name`.
void WriteAll(int fd, std::string_view content, const std::string& name);

// Creates `path` with `content`, whole: another process sees all of it or no file. False if it
// already exists.
[[nodiscard]] bool CreateFile(const std::string& path, std::string_view content);

// Creates or replaces `path`, whole. A leftover of a killed writer ("<path>.new") is overwritten.
void ReplaceFile(const std::string& path, std::string_view content);

// Throws unless CreateFile() could make a file in `folder`, which has to be there. Leaves nothing.
void RequireWritable(const std::string& folder);

// Removes `path`; absent is success.
void EnsureFileGone(const std::string& path);

// Makes the folder and its parents (mode 0755).
void EnsureFolder(const std::string& path);

// The names in a folder, in no order, without "." and ".."; empty if the folder does not exist.
[[nodiscard]] std::vector<std::string> Entries(const std::string& folder);

}  // namespace nomad_bridge
