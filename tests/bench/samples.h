// Durations, and what is said about them.
#pragma once

#include <functional>
#include <vector>

namespace nomad_bridge::bench {

class Samples {
 public:
  // Runs `act` and adds how long it took.
  void Time(const std::function<void()>& act);
  void Add(double value) { values_.push_back(value); }

  [[nodiscard]] std::size_t size() const { return values_.size(); }
  // In milliseconds, if they were timed; of no samples: std::out_of_range.
  [[nodiscard]] double Median() const { return Quantile(0.5); }
  // The value that 90 of 100 do not exceed.
  [[nodiscard]] double P90() const { return Quantile(0.9); }

 private:
  [[nodiscard]] double Quantile(double part) const;

  std::vector<double> values_;
};

}  // namespace nomad_bridge::bench
