#include "tests/support/soon.h"

#include <chrono>
#include <thread>

#include "base/file_lock.h"

namespace nomad_bridge::test {

bool Soon(const std::function<bool()>& happened) {
  const Deadline deadline = FromNow(std::chrono::seconds(30));
  while (std::chrono::steady_clock::now() < deadline) {
    if (happened()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return happened();
}

}  // namespace nomad_bridge::test
