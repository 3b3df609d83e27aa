// What was measured, as tables to read and as JSON to draw.
//
// Shapes  JSON: {"machine": {"cpus", "kernel"}, "contenders": [name, ...],
//         "figures": [{"alive", "contender", "verb", "rounds", "median_ms", "p90_ms"}, ...],
//         "costs": [{"contender", "processes", "peak_mib"}, ...]}
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/contender.h"

namespace nomad_bridge::bench {

using Contenders = std::vector<std::unique_ptr<Contender>>;
using Row = std::vector<std::string>;

class Report {
 public:
  explicit Report(const Contenders& contenders);

  // What the contenders' rounds with `alive` others have taken.
  void AddTimes(int alive);
  // What one ADD costs, and what CHECK complains of.
  void AddCosts();

  void Print(std::ostream& out) const;
  [[nodiscard]] const nlohmann::ordered_json& json() const { return json_; }

 private:
  void AddRow(const std::string& verb, int alive, Samples Times::*verbs);

  const Contenders& contenders_;
  std::vector<Row> times_;
  std::vector<Row> costs_;
  std::string notes_;
  nlohmann::ordered_json json_;
};

// Where it was measured: {"cpus", "kernel"}.
[[nodiscard]] nlohmann::ordered_json Machine();
// After an empty line. Columns as wide as need be, the first one left-aligned, a line below the
// first row.
void PrintTable(std::ostream& out, const std::vector<Row>& rows);
// "12.3": as many digits as mean something.
[[nodiscard]] std::string Number(double value);

}  // namespace nomad_bridge::bench
