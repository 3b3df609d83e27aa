#include "tests/bench/report.h"

#include <cmath>
#include <iomanip>
#include <sstream>
#include <thread>

#include <sys/utsname.h>

#include "base/text.h"

namespace nomad_bridge::bench {
namespace {

// Three digits are more than a run and the next agree in.
double Rounded(double value) {
  return std::round(value * 100) / 100;
}

}  // namespace

Report::Report(const Contenders& contenders)
    : contenders_(contenders), times_{{"ms, median / p90"}}, costs_{{"one ADD"}} {
  json_["machine"] = Machine();
  for (const std::unique_ptr<Contender>& contender : contenders_) {
    times_.front().push_back(contender->name());
    costs_.front().push_back(contender->name());
    json_["contenders"].push_back(contender->name());
  }
  for (const std::unique_ptr<Contender>& contender : contenders_) {
    if (contender->baseline() != nullptr) {
      times_.front().push_back(Cat(contender->baseline()->name(), " : ", contender->name()));
    }
  }
}

void Report::AddTimes(int alive) {
  AddRow("ADD", alive, &Times::add);
  AddRow("CHECK", alive, &Times::check);
  AddRow("DEL", alive, &Times::del);
}

void Report::AddRow(const std::string& verb, int alive, Samples Times::*verbs) {
  Row row{Cat(verb, ", ", alive, " alive")};
  for (const std::unique_ptr<Contender>& contender : contenders_) {
    const Samples& times = contender->times().*verbs;
    row.push_back(Cat(Number(times.Median()), " / ", Number(times.P90())));
    json_["figures"].push_back({{"alive", alive},
                                {"verb", verb},
                                {"contender", contender->name()},
                                {"rounds", times.size()},
                                {"median_ms", Rounded(times.Median())},
                                {"p90_ms", Rounded(times.P90())}});
  }
  for (const std::unique_ptr<Contender>& contender : contenders_) {
    if (const Contender* const baseline = contender->baseline()) {
      const double ratio =
          (baseline->times().*verbs).Median() / (contender->times().*verbs).Median();
      row.push_back(Cat(Number(ratio), " x"));
    }
  }
  times_.push_back(std::move(row));
}

void Report::AddCosts() {
  costs_.push_back({"processes started"});
  costs_.push_back({"peak memory of one, MiB"});
  for (const std::unique_ptr<Contender>& contender : contenders_) {
    const Cost cost = contender->CostOfAdd();
    const double mib = static_cast<double>(cost.peak_kib) / 1024;
    costs_[1].push_back(Cat(cost.processes));
    costs_[2].push_back(Number(mib));
    json_["costs"].push_back({{"contender", contender->name()},
                              {"processes", cost.processes},
                              {"peak_mib", Rounded(mib)}});
    if (!contender->complaint().empty()) {
      notes_ += Cat("CHECK of ", contender->name(), " fails: ", contender->complaint(), '\n');
    }
  }
}

void Report::Print(std::ostream& out) const {
  PrintTable(out, times_);
  PrintTable(out, costs_);
  out << '\n' << notes_;
}

nlohmann::ordered_json Machine() {
  utsname kernel{};
  ::uname(&kernel);
  return {{"cpus", std::thread::hardware_concurrency()}, {"kernel", kernel.release}};
}

void PrintTable(std::ostream& out, const std::vector<Row>& rows) {
  out << '\n';
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
