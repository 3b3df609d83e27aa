// Measures how the cost of an operation grows with its input. No test compares a cost with a fixed
// time: both costs are measured in the same run, in CPU time of this thread, so a busy machine
// changes neither much.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include <time.h>

namespace nomad_bridge::test {

// Runs `act` several times, and returns the lowest cost in nanoseconds.
template <typename Act>
[[nodiscard]] double CpuTime(const Act& act) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  };
  double lowest = std::numeric_limits<double>::max();
  for (int run = 0; run < 5; ++run) {
    const double begin = now();
    act();
    lowest = std::min(lowest, now() - begin);
  }
  return lowest;
}

// Returns by which factor the cost of `use` grows if its input grows by the factor 8: about 8 if
// the cost is linear, 64 if it is quadratic. `make` returns an input of the given size.
template <typename Make, typename Use>
[[nodiscard]] double Growth(std::size_t size, const Make& make, const Use& use) {
  const auto small = make(size);
  const auto large = make(8 * size);
  return CpuTime([&] { use(large); }) / CpuTime([&] { use(small); });
}

// A limit between linear and quadratic growth.
constexpr double kLessThanQuadratic = 24;

}  // namespace nomad_bridge::test
