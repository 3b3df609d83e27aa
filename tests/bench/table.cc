#include "tests/bench/table.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace nomad_bridge::bench {

double Samples::Quantile(double part) {
  if (!sorted_) {
    std::sort(values_.begin(), values_.end());
    sorted_ = true;
  }
  // The nearest rank: a value that was really measured.
  const double rank = std::ceil(part * static_cast<double>(values_.size()));
  return values_.at(static_cast<std::size_t>(std::max(rank, 1.0)) - 1);
}

void PrintTable(std::ostream& out, const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t column = 0; column < rows[i].size(); ++column) {
      out << (column == 0 ? std::left : std::right) << std::setw(static_cast<int>(widths[column]))
          << rows[i][column] << "   ";
    }
    out << '\n';
    if (i == 0) {
      std::size_t width = 0;
      for (const std::size_t column : widths) {
        width += column + 3;
      }
      out << std::string(width - 3, '-') << '\n';
    }
  }
}

std::string Number(double value) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(value < 10 ? 2 : 1) << value;
  return text.str();
}

}  // namespace nomad_bridge::bench
