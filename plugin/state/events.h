// What happens on this node, counted for `metrics`: repairs by area, refused ADDs by code. There is
// no daemon, and nothing is locked by what happens.
//
// /run/nomad-bridge/.event-log
//   A command appends a line for each kind of event (base/append_log.h).
// /run/nomad-bridge/.event-totals
//   Replaced by every run of `metrics`: a line per kind with its sum, and one, "read", of how far
//   the log is in it. So each line counts once, also if `metrics` is killed between this and its
//   hole in the log.
//
// A line of either has three fields, each ended by a tab: what happened ("refused", "repaired"),
// its code or area, how often.
//
// Locks    `metrics` alone takes one, flock(2) of the log.
// Limits   Those of the log. Codes above 999, which IPAM plugins may have, are not counted.
// Errors   Counting never fails a command: it is logged and ignored.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/error.h"
#include "base/mismatch.h"

namespace nomad_bridge::state {

void CountRefusedAdd(Code code);

// Says on stderr what was repaired, and counts it, when it goes out of scope, also if the command
// fails.
class RepairLog {
 public:
  explicit RepairLog(const Mismatches& mismatches) : mismatches_(mismatches) {}
  RepairLog(const RepairLog&) = delete;
  RepairLog& operator=(const RepairLog&) = delete;
  ~RepairLog();

 private:
  const Mismatches& mismatches_;
};

struct EventTotals {
  std::map<int, std::uint64_t> refused_adds;      // by code
  std::map<std::string, std::uint64_t> repaired;  // by area
};

// Of all that has happened since the first call on this boot. Waits for other runs.
[[nodiscard]] EventTotals SettleEvents();

}  // namespace nomad_bridge::state
