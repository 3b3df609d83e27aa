// A file that commands append lines to, and that one reader empties: what `metrics` counts.
//
// Shape      A line begins and ends with '\n', since the one before may be torn.
// Growth     The reader makes the file, so that nothing is written where nobody reads. It punches
//            a hole where it has read: the length grows while the file occupies next to nothing,
//            and an offset never means two different lines.
// Limits     It is not appended to while it occupies 1 MiB less a margin, and never with a line of
//            more than 4 KiB.
// Locks      Appending takes none. Lock() is for readers alone, from before they look until they
//            have written down what they read.
// Errors     Append: none; it is logged and ignored. Read: kIo. Lock: kTryAgain, kIo.
// Source     fallocate(2) FALLOC_FL_PUNCH_HOLE, lseek(2) SEEK_DATA: tmpfs and the usual file
//            systems. Where they are not supported the file stays as it is, up to its limit.
#pragma once

#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/file_lock.h"

namespace nomad_bridge {

class AppendLog {
 public:
  explicit AppendLog(const std::string& path);

  // `lost` completes "cannot write to ..., ignoring: the metrics may lack ...".
  void Append(std::string_view line, std::string_view lost) const;

  struct Part {
    std::string lines;  // whole ones
    off_t end = 0;      // where they end in the file
  };
  // What is behind `from` and has not been punched out; all of it if `from` is behind its end, and
  // so of a file that has been replaced.
  [[nodiscard]] Part Read(off_t from = 0) const;

  // `what` completes "timed out waiting for the lock of ...".
  [[nodiscard]] FileLock Lock(const std::string& what) const;

  // Of the file that is locked.
  static void Punch(const FileLock& lock, off_t end);

 private:
  std::string path_;
};

}  // namespace nomad_bridge
