#include "tests/support/soon.h"

#include <thread>

#include "base/file_lock.h"

namespace nomad_bridge::test {
namespace {

// Far shorter than the changes take, but long enough to cost little even if many tests wait.
constexpr std::chrono::milliseconds kPause{10};

}  // namespace

bool Soon(const std::function<bool()>& happened) {
  const Deadline deadline = FromNow(std::chrono::seconds(30));
  while (std::chrono::steady_clock::now() < deadline) {
    if (happened()) {
      return true;
    }
    // Another program or the kernel makes the change, and no event reports it.
    std::this_thread::sleep_for(kPause);
  }
  return happened();
}

}  // namespace nomad_bridge::test
