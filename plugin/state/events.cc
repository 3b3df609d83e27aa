#include "plugin/state/events.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/append_log.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/state/record.h"

namespace nomad_bridge::state {
namespace {

constexpr std::string_view kRefused = "refused";
constexpr std::string_view kRepaired = "repaired";
constexpr std::string_view kRead = "read";

// By what happened, and its code or area.
using Kind = std::pair<std::string, std::string>;
using Counts = std::map<Kind, std::uint64_t>;

AppendLog TheLog() {
  return AppendLog(Cat(kStateDirectory, "/.event-log"));
}

std::string TotalsPath() {
  return Cat(kStateDirectory, "/.event-totals");
}

std::string LineOf(std::string_view what, std::string_view kind, std::uint64_t count) {
  return Cat('\n', what, '\t', kind, '\t', count, "\t\n");
}

void AddLine(Counts& counts, std::string_view line) {
  constexpr std::size_t kFields = 3;
  if (std::ranges::count(line, '\t') != kFields || !line.ends_with('\t')) {
    return;  // torn, or what is between two
  }
  const std::string_view what = TakeUntil('\t', line);
  const Kind kind(what, TakeUntil('\t', line));
  if (const auto count = FindNumber<std::uint64_t>(TakeUntil('\t', line))) {
    counts[kind] += *count;
  }
}

void AddLines(Counts& counts, std::string_view lines) {
  while (!lines.empty()) {
    AddLine(counts, TakeUntil('\n', lines));
  }
}

std::string TextOf(const Counts& counts) {
  std::string text;
  for (const auto& [kind, count] : counts) {
    text += LineOf(kind.first, kind.second, count);
  }
  return text;
}

EventTotals TotalsOf(const Counts& counts) {
  EventTotals totals;
  for (const auto& [kind, count] : counts) {
    const auto& [what, name] = kind;
    if (what == kRepaired) {
      totals.repaired[name] = count;
    } else if (const auto code = FindNumber<int>(name); code && what == kRefused) {
      totals.refused_adds[*code] = count;
    }
  }
  return totals;
}

}  // namespace

void CountRefusedAdd(Code code) {
  const int number = static_cast<int>(code);
  if (number >= 0 && number <= static_cast<int>(Code::kInternal)) {
    TheLog().Append(LineOf(kRefused, Cat(number), 1), "a refused ADD");
  }
}

RepairLog::~RepairLog() {
  std::map<Mismatch::Area, std::uint64_t> counts;
  for (const Mismatch& mismatch : mismatches_.repaired()) {
    const bool is_removed = mismatch.area == Mismatch::Area::kLeftOver;
    LogLine("{}: {}", is_removed ? "removed" : "repaired", mismatch.text);
    ++counts[mismatch.area];
  }
  for (const auto& [area, count] : counts) {
    TheLog().Append(LineOf(kRepaired, Text(area), count), "a repair");
  }
}

EventTotals SettleEvents() {
  Counts counts;
  try {
    EnsureDirectory(kStateDirectory);
    const AppendLog log = TheLog();
    const FileLock lock = log.Lock("the events that are counted");
    AddLines(counts, FindOwnFile(TotalsPath()).value_or(""));
    std::uint64_t& read = counts[{std::string(kRead), ""}];
    const AppendLog::Part fresh = log.Read(static_cast<off_t>(read));
    AddLines(counts, fresh.lines);
    read = static_cast<std::uint64_t>(fresh.end);
    ReplaceFile(TotalsPath(), TextOf(counts));
    AppendLog::Punch(lock, fresh.end);
  } catch (const Error& error) {
    if (error.code() == Code::kTryAgain) {
      throw;
    }
    LogLine("{}, ignoring: counters of events may fall", error.what());
  }
  return TotalsOf(counts);
}

}  // namespace nomad_bridge::state
