#include "plugin/link/traffic.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/append_log.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {
namespace {

constexpr std::uint64_t kFoldedAfterSeconds = 60;
constexpr std::uint64_t kForgottenAfterSeconds = 86'400;
constexpr std::uint64_t kChildForgottenAfterSeconds = 3600;
constexpr std::size_t kMaxTotalsBytes = 16 << 20;

// Received and sent.
constexpr std::size_t kCounters = 6;
using Numbers = std::array<std::uint64_t, kCounters>;

// Its name and index.
using LinkKey = std::pair<std::string, int>;

LinkKey KeyOf(const rtnl::Link& link) {
  return {link.name, link.index};
}

// A link, or the folded sum of a workload.
struct Entry {
  std::uint64_t gone_since = 0;
  LinkKey link;
  Numbers counted{};
  cni::Workload workload;
};
constexpr std::size_t kFields = 2 + kCounters + 1 + 3;

AppendLog TheLog() {
  return AppendLog(Cat(state::kStateDirectory, "/.traffic-log"));
}

std::string TotalsPath() {
  return Cat(state::kStateDirectory, "/.traffic-totals");
}

Numbers NumbersOf(const rtnl::Link& link) {
  const auto [in, out] = link.counters.value_or(rtnl::LinkCounters());
  return {in.bytes, in.packets, in.dropped, out.bytes, out.packets, out.dropped};
}

rtnl::LinkCounters CountersOf(const Numbers& numbers) {
  return {.received = {.bytes = numbers[0], .packets = numbers[1], .dropped = numbers[2]},
          .sent = {.bytes = numbers[3], .packets = numbers[4], .dropped = numbers[5]}};
}

std::string LineOf(const Entry& entry) {
  const auto& [nomad_namespace, job, group] = entry.workload;
  std::string line = Cat('\n', entry.gone_since, '\t', entry.link.second, '\t');
  for (const std::uint64_t number : entry.counted) {
    line += Cat(number, '\t');
  }
  return Cat(line, entry.link.first, '\t', nomad_namespace, '\t', job, '\t', group, "\t\n");
}

Entry EntryOf(const rtnl::Link& link, const cni::Workload& workload) {
  return {.link = KeyOf(link), .counted = NumbersOf(link), .workload = workload};
}

// nullopt for a torn line, and for what is between two.
std::optional<Entry> Parse(std::string_view line) {
  if (std::ranges::count(line, '\t') != kFields || !line.ends_with('\t')) {
    return std::nullopt;
  }
  Entry entry;
  bool is_valid = true;
  const auto take_number = [&]<typename Number>(Number& number) {
    const std::optional<Number> found = FindNumber<Number>(TakeUntil('\t', line));
    is_valid = is_valid && found;
    number = found.value_or(0);
  };
  auto& [name, index] = entry.link;
  take_number(entry.gone_since);
  take_number(index);
  std::ranges::for_each(entry.counted, take_number);
  auto& [nomad_namespace, job, group] = entry.workload;
  for (std::string* const text : {&name, &nomad_namespace, &job, &group}) {
    *text = TakeUntil('\t', line);
  }
  return is_valid ? std::optional(entry) : std::nullopt;
}

void Raise(Numbers& numbers, const Numbers& others) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = std::max(numbers[i], others[i]);
  }
}

void Add(Numbers& sum, const Numbers& more) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += more[i];
  }
}

// What is known of all links.
class Known {
 public:
  // `now`: Unix time in s.
  explicit Known(std::uint64_t now) : now_(now) {}

  // Lines that are newer than what is known.
  void Read(std::string_view lines);
  void Meet(const Entry& link);
  // What is not among these is gone. Folds links, forgets workloads.
  void Age(const std::vector<rtnl::Link>& present, std::set<cni::Workload> workloads);

  [[nodiscard]] std::string Text() const;
  [[nodiscard]] std::map<cni::Workload, rtnl::LinkCounters> Sums() const;

 private:
  Entry& Folded(const cni::Workload& workload) {
    return folded_.try_emplace(workload, Entry{.workload = workload}).first->second;
  }
  // For longer than `seconds`.
  [[nodiscard]] bool IsGone(Entry& entry, bool is_present, std::uint64_t seconds) const;
  // Of what is among neither these nor the links that are known.
  void Forget(std::set<cni::Workload> workloads);

  std::uint64_t now_;
  std::map<LinkKey, Entry> links_;
  std::map<cni::Workload, Entry> folded_;
};

void Known::Read(std::string_view lines) {
  while (!lines.empty()) {
    std::optional<Entry> entry = Parse(TakeUntil('\n', lines));
    if (!entry) {
      continue;
    }
    entry->gone_since = std::min(entry->gone_since, now_);  // the clock was set back
    if (entry->link.first.empty()) {
      Folded(entry->workload) = *entry;
    } else {
      Meet(*entry);
    }
  }
}

// A link stays with the workload that it was first met with: else the sum of that one would fall.
void Known::Meet(const Entry& link) {
  Entry& known = links_.try_emplace(link.link, link).first->second;
  known.gone_since = link.gone_since;
  Raise(known.counted, link.counted);
}

bool Known::IsGone(Entry& entry, bool is_present, std::uint64_t seconds) const {
  if (is_present) {
    entry.gone_since = 0;
  } else if (entry.gone_since == 0) {
    entry.gone_since = now_;
  }
  return entry.gone_since != 0 && now_ - entry.gone_since > seconds;
}

void Known::Age(const std::vector<rtnl::Link>& present, std::set<cni::Workload> workloads) {
  for (const cni::Workload& workload : workloads) {
    Folded(workload);
  }
  std::map<LinkKey, Numbers> counts;
  for (const rtnl::Link& link : present) {
    counts.emplace(KeyOf(link), NumbersOf(link));
  }
  for (auto at = links_.begin(); at != links_.end();) {
    auto& [key, link] = *at;
    const auto count = counts.find(key);
    const bool is_present = count != counts.end();
    if (is_present) {
      Raise(link.counted, count->second);
    }
    if (IsGone(link, is_present, kFoldedAfterSeconds)) {
      Add(Folded(link.workload).counted, link.counted);
      at = links_.erase(at);
    } else {
      workloads.insert(link.workload);
      ++at;
    }
  }
  Forget(std::move(workloads));
}

void Known::Forget(std::set<cni::Workload> workloads) {
  std::set<cni::Workload> parents;
  std::ranges::transform(workloads, std::inserter(parents, parents.end()), cni::ParentOf);
  workloads.merge(parents);
  std::vector<Entry> children;
  for (auto at = folded_.begin(); at != folded_.end();) {
    const bool is_child = cni::ParentOf(at->first) != at->first;
    const bool is_forgotten =
        IsGone(at->second,
               workloads.contains(at->first),
               is_child ? kChildForgottenAfterSeconds : kForgottenAfterSeconds);
    if (is_forgotten && is_child) {
      children.push_back(at->second);
    }
    at = is_forgotten ? folded_.erase(at) : std::next(at);
  }
  for (const Entry& child : children) {
    Add(Folded(cni::ParentOf(child.workload)).counted, child.counted);
  }
}

std::string Known::Text() const {
  std::vector<const Entry*> entries;
  const auto address_of = [](const auto& item) { return &item.second; };
  std::ranges::transform(folded_, std::back_inserter(entries), address_of);
  std::ranges::transform(links_, std::back_inserter(entries), address_of);
  // What is gone for longest is forgotten first.
  std::ranges::stable_sort(entries, {}, [&](const Entry* entry) {
    return entry->gone_since == 0 ? 0 : now_ - entry->gone_since;
  });
  std::string text;
  for (const Entry* const entry : entries) {
    const std::string line = LineOf(*entry);
    if (text.size() + line.size() > kMaxTotalsBytes) {
      break;
    }
    text += line;
  }
  return text;
}

std::map<cni::Workload, rtnl::LinkCounters> Known::Sums() const {
  std::map<cni::Workload, rtnl::LinkCounters> sums;
  for (const auto& [workload, entry] : folded_) {
    sums[workload] += CountersOf(entry.counted);
  }
  for (const auto& [key, entry] : links_) {
    sums[entry.workload] += CountersOf(entry.counted);
  }
  return sums;
}

// The end of what was read of the log; nullopt if something could not be read.
std::optional<off_t> ReadAllInto(Known& known) try {
  known.Read(FindOwnFile(TotalsPath(), kMaxTotalsBytes).value_or(""));
  const AppendLog::Part log = TheLog().Read();
  known.Read(log.lines);
  return log.end;
} catch (const Error& error) {
  LogLine("{}, ignoring: the metrics lack what deleted interfaces had counted", error.what());
  return std::nullopt;
}

void Write(const Known& known, const FileLock& log, off_t read_until) try {
  ReplaceFile(TotalsPath(), known.Text());
  AppendLog::Punch(log, read_until);
} catch (const Error& error) {
  LogLine("{}, ignoring: counters may fall", error.what());
}

std::uint64_t UnixTime() {
  using std::chrono::seconds;
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

}  // namespace

void NoteTraffic(const rtnl::Link& link, const cni::Workload& workload) {
  TheLog().Append(LineOf(EntryOf(link, workload)), Format("what '{}' has counted", link.name));
}

TrafficTotals TrafficTotals::Lock() {
  TrafficTotals totals;
  totals.reads_ = true;
  try {
    EnsureDirectory(state::kStateDirectory);
    totals.lock_ = TheLog().Lock("the traffic of deleted links");
  } catch (const Error& error) {
    if (error.code() == Code::kTryAgain) {
      throw;
    }
    LogLine("{}, ignoring: counters may fall", error.what());
  }
  return totals;
}

std::map<cni::Workload, rtnl::LinkCounters> TrafficTotals::Settle(
    const std::vector<rtnl::Link>& links,
    const std::vector<Counted>& attachments) const {
  Known known(UnixTime());
  const std::optional<off_t> read_until = reads_ ? ReadAllInto(known) : std::nullopt;
  std::set<cni::Workload> workloads;
  for (const auto& [workload, link] : attachments) {
    workloads.insert(workload);
    if (link != nullptr) {
      known.Meet(EntryOf(*link, workload));
    }
  }
  known.Age(links, std::move(workloads));
  if (lock_ && read_until) {
    Write(known, *lock_, *read_until);
  }
  return known.Sums();
}

}  // namespace nomad_bridge::link
