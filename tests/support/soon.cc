#include "tests/support/soon.h"

#include <thread>

#include "base/file_lock.h"

namespace nomad_bridge::test {
namespace {

// Far shorter than what is waited for, and no load for a machine on which many wait.
constexpr std::chrono::milliseconds kPause{10};

}  // namespace

bool Soon(const std::function<bool()>& happened) {
  const Deadline deadline = FromNow(std::chrono::seconds(30));
  while (std::chrono::steady_clock::now() < deadline) {
    if (happened()) {
      return true;
    }
    // What is waited for is another program's or the kernel's doing, of which no event tells.
    std::this_thread::sleep_for(kPause);
  }
  return happened();
}

}  // namespace nomad_bridge::test
