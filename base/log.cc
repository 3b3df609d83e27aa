#include "base/log.h"

#include <utility>

#include <unistd.h>

#include "base/file.h"
#include "base/file_lock.h"

namespace nomad_bridge {
namespace {

std::string& Kept() {
  static std::string kept;
  return kept;
}

}  // namespace

void WriteLog(std::string_view text) {
  Kept() += text;
  WriteKeptLog();
}

void WriteKeptLog() {
  if (!FileLock::IsAnyHeld()) {
    WriteBestEffort(STDERR_FILENO, std::exchange(Kept(), {}));
  }
}

}  // namespace nomad_bridge
