#include "tests/bench/samples.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace nomad_bridge::bench {

void Samples::Time(const std::function<void()>& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  values_.push_back(took.count());
}

double Samples::Quantile(double part) const {
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  // The nearest rank: a value that was really measured.
  const double rank = std::ceil(part * static_cast<double>(sorted.size()));
  return sorted.at(static_cast<std::size_t>(std::max(rank, 1.0)) - 1);
}

}  // namespace nomad_bridge::bench
