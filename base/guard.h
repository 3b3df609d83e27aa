// A process that makes something for this process, keeps it, and takes it back when this process
// ends, however it ends.
//
// Process  It has a session of its own, and ignores INT, TERM and HUP: a signal to this process's
//          terminal or group does not end it. It inherits all descriptors.
// Killed   If this process is killed, the guard takes everything back. If the guard is killed, this
//          process does. If both are killed, nobody does.
// Assumes  one thread; SIGCHLD is not ignored
// Errors   kKernel
#pragma once

#include <functional>
#include <string>

#include <sys/types.h>

#include "base/fd.h"

namespace nomad_bridge {

class Guard {
 public:
  // Starts the guard, which calls `make` and later `take_back`. `make` does not throw, and returns
  // a report of what it made. `take_back` throws if something stays; it may be called again then,
  // and also if `make` did not run to its end.
  Guard(const std::function<std::string()>& make, std::function<void()> take_back);
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  // As TakeBack(), but drops its error.
  ~Guard();

  // Waits until all is made, and returns the report. Throws kKernel if the guard was killed.
  [[nodiscard]] std::string Await();

  // Returns after everything was taken back. Throws what `take_back` throws.
  void TakeBack();

 private:
  std::function<void()> take_back_;
  UniqueFd report_;
  UniqueFd alive_;  // closing it, and the end of this process, wakes the guard
  pid_t process_ = -1;
};

}  // namespace nomad_bridge
