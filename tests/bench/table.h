// Figures and how they are shown.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace nomad_bridge::bench {

// How long something took, again and again.
class Samples {
 public:
  void Add(double milliseconds) {
    sorted_ = false;
    values_.push_back(milliseconds);
  }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  [[nodiscard]] double Median() { return Quantile(0.5); }
  // The value that 90 of 100 do not exceed.
  [[nodiscard]] double P90() { return Quantile(0.9); }

 private:
  [[nodiscard]] double Quantile(double part);

  std::vector<double> values_;
  bool sorted_ = false;
};

using Row = std::vector<std::string>;

// Columns as wide as need be, the first one left-aligned, a line below the first row.
void PrintTable(std::ostream& out, const std::vector<Row>& rows);

// "12.3": as many digits as say something.
[[nodiscard]] std::string Number(double value);

}  // namespace nomad_bridge::bench
