#include "plugin/state/policy_file.h"

#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge::state {
namespace {

constexpr const char* kFile = "/run/nomad-bridge/.policy";
constexpr std::size_t kMaxBytes = 64 << 20;
constexpr std::string_view kNoDirectory = "-";

bool IsSameFile(const std::optional<struct stat>& one, const std::optional<struct stat>& other) {
  return one.has_value() == other.has_value() &&
         (!one || (one->st_ino == other->st_ino && one->st_ctim.tv_sec == other->st_ctim.tv_sec &&
                   one->st_ctim.tv_nsec == other->st_ctim.tv_nsec));
}

// Returns whether `text` is like "586503d5-5eaa-4264-9372-6483e1de7d3c", the form of
// /proc/sys/kernel/random/boot_id.
bool IsBootId(std::string_view text) {
  constexpr std::size_t kSize = 36;
  return text.size() == kSize && text.find_first_not_of("0123456789abcdef-") == text.npos;
}

}  // namespace

Error PolicyFile::Damaged(std::string_view why) {
  return {Code::kIo,
          "cannot read the policies in force",
          Format("{}: {}; apply them again: nomad-bridge policy apply", kFile, why),
          // If the default directory does not exist, `policy apply` without DIR refuses to run: it
          // would remove all policies.
          FindStatus(policy::kPolicyDirectory)
              ? Fix("nomad-bridge policy apply")
              : Fix::Advice("nomad-bridge policy apply DIR, with the directory that was applied")};
}

void PolicyFile::Refresh() {
  if (is_read_ && !IsSameFile(status_, FindStatus(kFile))) {
    is_read_ = false;
  }
}

void PolicyFile::Write(const policy::Program& program, const std::string& directory) {
  Restore(Cat(boot_id_,
              ' ',
              directory.empty() ? kNoDirectory : std::string_view(directory),
              '\n',
              program.Text()));
}

std::optional<std::string> PolicyFile::FindText() {
  return FindOwnFile(kFile, kMaxBytes);
}

void PolicyFile::Restore(const std::optional<std::string>& text) {
  if (text) {
    EnsureDirectory(kStateDirectory);
    ReplaceFile(kFile, *text);
  } else {
    EnsureFileGone(kFile);
  }
  is_read_ = false;
}

const PolicyFile::Content& PolicyFile::Read() {
  if (!is_read_) {
    // Reads the status before the file, so that Refresh() notices if the file is replaced in
    // between.
    status_ = FindStatus(kFile);
    const std::optional<std::string> text = FindText();
    content_ = text ? Parse(*text) : Content();
    is_read_ = true;
  }
  return content_;
}

PolicyFile::Content PolicyFile::Parse(std::string_view text) const {
  std::string_view head = TakeUntil('\n', text);
  const std::string_view boot = TakeUntil(' ', head);
  // A file without its first line counts as damaged, not as absent: what it refused must not be let
  // in.
  if (!IsBootId(boot) || head.empty()) {
    throw Damaged("it does not name its boot and its directory");
  }
  try {
    return boot == boot_id_ ? Content{true,
                                      head == kNoDirectory ? std::string() : std::string(head),
                                      policy::Program(std::string(text))}
                            : Content();
  } catch (const Error& error) {
    throw Damaged(error.what());
  }
}

}  // namespace nomad_bridge::state
