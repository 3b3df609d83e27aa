#include "plugin/state/events.h"

#include <array>
#include <map>
#include <optional>
#include <string_view>

#include <fcntl.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"

namespace nomad_bridge::state {
namespace {

constexpr const char* kDirectory = "/run/nomad-bridge/.counts";
constexpr std::string_view kRefused = "/refused-";
constexpr std::string_view kRepaired = "/repaired-";
constexpr std::string_view kFailed = "/failed-";
constexpr std::string_view kReconcile = "reconcile";
constexpr const char* kOtherCode = "other";

constexpr std::array kCodes = {Code::kIncompatibleVersion,
                               Code::kUnsupportedField,
                               Code::kInvalidEnvironment,
                               Code::kIo,
                               Code::kDecode,
                               Code::kInvalidConfig,
                               Code::kInvalidNetns,
                               Code::kTryAgain,
                               Code::kKernel,
                               Code::kPoolExhausted,
                               Code::kConflict,
                               Code::kChanged,
                               Code::kIncomplete,
                               Code::kDelegate,
                               Code::kInternal};

std::string TextOf(Code code) {
  return Contains(kCodes, code) ? Cat(static_cast<int>(code)) : kOtherCode;
}

void Count(std::string_view what, std::string_view kind, std::size_t times) try {
  EnsureDirectory(kDirectory);
  const UniqueFd file(::open(Cat(kDirectory, what, kind).c_str(),
                             O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                             0600));
  WriteBestEffort(file.get(), std::string(times, '\n'));
} catch (const Error&) {
  // Counting must not fail the command.
}

std::uint64_t CountOf(std::string_view what, std::string_view kind) {
  const std::optional<struct stat> file = FindStatus(Cat(kDirectory, what, kind));
  return file && S_ISREG(file->st_mode) ? static_cast<std::uint64_t>(file->st_size) : 0;
}

}  // namespace

void CountRefusedAdd(Code code) {
  Count(kRefused, TextOf(code), 1);
}

void CountFailedReconcile() {
  Count(kFailed, kReconcile, 1);
}

RepairLog::~RepairLog() {
  std::map<Finding::Area, std::size_t> times;
  for (const Finding& finding : findings_.repaired()) {
    const bool is_removed = finding.area == Finding::Area::kLeftOver;
    LogLine("{}: {}", is_removed ? "removed" : "repaired", finding.text);
    ++times[finding.area];
  }
  for (const auto& [area, count] : times) {
    Count(kRepaired, Text(area), count);
  }
}

EventCounts RefusedAdds() {
  EventCounts counts;
  for (const Code code : kCodes) {
    counts.emplace_back(TextOf(code), CountOf(kRefused, TextOf(code)));
  }
  counts.emplace_back(kOtherCode, CountOf(kRefused, kOtherCode));
  return counts;
}

std::uint64_t FailedReconciles() {
  return CountOf(kFailed, kReconcile);
}

EventCounts Repairs() {
  EventCounts counts;
  for (const auto& [area, name] : kAreaNames) {
    // What is not ours is not repaired.
    if (area != Finding::Area::kNode && area != Finding::Area::kContainer) {
      counts.emplace_back(name, CountOf(kRepaired, name));
    }
  }
  return counts;
}

}  // namespace nomad_bridge::state
