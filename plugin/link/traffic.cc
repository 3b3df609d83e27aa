#include "plugin/link/traffic.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <string_view>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/state/kernel_names.h"
#include "plugin/state/origin.h"

namespace nomad_bridge::link {
namespace {

constexpr std::chrono::hours kForgottenAfter{24};

// Received and sent.
constexpr std::size_t kCounters = 6;
using Numbers = std::array<std::uint64_t, kCounters>;

struct Totals {
  Numbers deleted{};
  Numbers printed{};

  bool operator==(const Totals&) const = default;
};

std::string Directory() {
  return Cat(state::kStateFolder, "/.traffic");
}

std::string DeadDirectory() {
  return Cat(state::kStateFolder, "/.dead");
}

std::string PathOf(const cni::Workload& group) {
  constexpr int kDigits = 16;
  return Cat(
      Directory(),
      '/',
      Hex(StableHash(Cat(group.nomad_namespace, '\0', group.job, '\0', group.group)), kDigits));
}

Numbers NumbersOf(const rtnl::LinkCounters& counters) {
  const auto& [in, out] = counters;
  return {in.bytes, in.packets, in.dropped, out.bytes, out.packets, out.dropped};
}

rtnl::LinkCounters CountersOf(const Numbers& numbers) {
  return {.received = {.bytes = numbers[0], .packets = numbers[1], .dropped = numbers[2]},
          .sent = {.bytes = numbers[3], .packets = numbers[4], .dropped = numbers[5]}};
}

std::string TextOf(const Numbers& numbers) {
  constexpr std::size_t kDigits = 20;
  std::string text;
  for (const std::uint64_t number : numbers) {
    const std::string digits = std::to_string(number);
    text += Cat(std::string(kDigits - digits.size(), '0'), digits, ' ');
  }
  return text;
}

struct Stored {
  cni::Workload group;
  Totals totals;
};

std::string_view TakeUntil(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

// nullopt for an empty or a damaged file, which is written anew.
std::optional<Stored> Parse(std::string_view text) {
  Stored stored;
  for (std::string* const label :
       {&stored.group.nomad_namespace, &stored.group.job, &stored.group.group}) {
    *label = TakeUntil(text, '\n');
  }
  for (Numbers* const numbers : {&stored.totals.deleted, &stored.totals.printed}) {
    for (std::uint64_t& number : *numbers) {
      const std::string_view digits = TakeUntil(text, ' ');
      if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc()) {
        return std::nullopt;
      }
    }
  }
  return stored;
}

std::optional<Stored> Read(int fd) {
  // Three labels, which Nomad limits to some hundred bytes, and the numbers.
  std::array<char, 4096> buffer;
  const ssize_t size = ::pread(fd, buffer.data(), buffer.size(), 0);
  return size > 0 ? Parse({buffer.data(), static_cast<std::size_t>(size)}) : std::nullopt;
}

void Write(int fd, const Stored& stored) {
  const auto& [group, totals] = stored;
  const std::string text = Cat(group.nomad_namespace,
                               '\n',
                               group.job,
                               '\n',
                               group.group,
                               '\n',
                               TextOf(totals.deleted),
                               TextOf(totals.printed),
                               '\n');
  if (::pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw ErrnoError(Code::kIo, "cannot write down the traffic of a deleted interface");
  }
}

FileLock TakeLock(const cni::Workload& group, const std::string& path) {
  const std::string what = Format("the traffic of group '{}'", group.group);
  try {
    return FileLock::Take(path, LockKind::kCounters, what);
  } catch (const Error&) {
    if (FindStatus(Directory())) {
      throw;
    }
  }
  EnsureDirectory(Directory());
  return FileLock::Take(path, LockKind::kCounters, what);
}

bool IsFileAt(const std::string& path, int fd) {
  struct stat opened {};
  const std::optional<struct stat> present = FindStatus(path);
  return present && ::fstat(fd, &opened) == 0 && present->st_dev == opened.st_dev &&
         present->st_ino == opened.st_ino;
}

FileLock LockFile(const cni::Workload& group) {
  const std::string path = PathOf(group);
  std::optional<FileLock> lock;
  do {
    lock.reset();
    lock = TakeLock(group, path);
  } while (!IsFileAt(path, lock->fd()));  // forgotten while we waited
  return *std::move(lock);
}

void Add(Numbers& sum, const Numbers& more) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += more[i];
  }
}

std::optional<FileLock> TryLockFile(const cni::Workload& group) {
  try {
    return LockFile(group);
  } catch (const Error& error) {
    LogLine("{}, ignoring: the metrics will lack the traffic of this interface", error.what());
    return std::nullopt;
  }
}

bool IsUnused(const std::string& path) {
  const std::optional<struct stat> status = FindStatus(path);
  return status && std::chrono::system_clock::now() -
                           std::chrono::system_clock::from_time_t(status->st_mtim.tv_sec) >
                       kForgottenAfter;
}

// Of all groups that have a file; forgets those that nobody has used for a day.
std::set<cni::Workload> GroupsWithFile(const std::set<cni::Workload>& used) {
  std::set<cni::Workload> groups;
  for (const std::string& name : Entries(Directory())) {
    const std::string path = Cat(Directory(), '/', name);
    const std::optional<Stored> stored = Parse(FindFile(path).value_or(""));
    if (!stored || used.contains(stored->group)) {
      continue;
    }
    if (IsUnused(path)) {
      const FileLock lock = LockFile(stored->group);  // a DEL may be about to write to it
      if (IsUnused(path)) {
        EnsureFileGone(path);
        continue;
      }
    }
    groups.insert(stored->group);
  }
  return groups;
}

}  // namespace

void DeleteCounted(const cni::ShortLabels& labels,
                   const rtnl::LinkCounters& counters,
                   const std::function<void()>& delete_link) {
  const cni::Workload group = cni::WorkloadOf(labels);
  const std::optional<FileLock> lock = TryLockFile(group);
  delete_link();
  if (!lock) {
    return;
  }
  try {
    Stored stored = Read(lock->fd()).value_or(Stored());
    stored.group = group;
    Add(stored.totals.deleted, NumbersOf(counters));
    Write(lock->fd(), stored);
  } catch (const Error& error) {
    LogLine("{}, ignoring", error.what());
  }
}

TrafficTotals TrafficTotals::Lock(const std::set<cni::Workload>& groups) {
  TrafficTotals all;
  std::set<cni::Workload> both = GroupsWithFile(groups);
  both.insert(groups.begin(), groups.end());
  for (const cni::Workload& group : both) {
    all.files_.emplace(group, LockFile(group));
  }
  return all;
}

std::map<cni::Workload, rtnl::LinkCounters> TrafficTotals::Settle(
    const std::map<cni::Workload, rtnl::LinkCounters>& live) {
  std::map<cni::Workload, rtnl::LinkCounters> sums;
  for (const auto& [group, file] : files_) {
    const Stored before = Read(file.fd()).value_or(Stored());
    const auto present = live.find(group);
    const Numbers counted = present != live.end() ? NumbersOf(present->second) : Numbers();
    Stored after{.group = group, .totals = before.totals};
    for (std::size_t i = 0; i < kCounters; ++i) {
      std::uint64_t& deleted = after.totals.deleted[i];
      std::uint64_t& printed = after.totals.printed[i];
      deleted = std::max(deleted + counted[i], printed) - counted[i];
      printed = deleted + counted[i];
    }
    if (after.totals != before.totals) {
      Write(file.fd(), after);
    }
    sums.emplace(group, CountersOf(after.totals.printed));
  }
  return sums;
}

void NoteDead(const std::set<std::string>& host_veths) {
  for (const std::string& name : Entries(DeadDirectory())) {
    if (!host_veths.contains(name)) {
      EnsureFileGone(Cat(DeadDirectory(), '/', name));
    }
  }
  for (const std::string& name : host_veths) {
    EnsureDirectory(DeadDirectory());
    static_cast<void>(CreateFile(Cat(DeadDirectory(), '/', name), ""));
  }
}

std::optional<std::chrono::system_clock::time_point> FirstSeenDead(const AttachmentId& id) {
  const std::optional<struct stat> status =
      FindStatus(Cat(DeadDirectory(), '/', state::HostVethName(id)));
  return status ? std::optional(std::chrono::system_clock::from_time_t(status->st_mtim.tv_sec))
                : std::nullopt;
}

}  // namespace nomad_bridge::link
