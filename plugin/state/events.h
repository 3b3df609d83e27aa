// How often something happened on this node: repairs by area, refused ADDs by code, for `metrics`.
//
// Shapes   /run/nomad-bridge/.counts/refused-<code>, .counts/repaired-<area>: a file's size is its
//          count. A command appends a byte for each event of a kind, all in one call: so nobody
//          needs a lock, and a command that is killed has counted each once or not at all.
// Limits   A file per area, and per code that an ADD of ours ends with. Codes that only an IPAM
//          plugin has are counted in "refused-other".
// Errors   none: counting never fails a command. `doctor` says if /run is full.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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

// Since the boot, by code or area; also those that have not happened.
using EventCounts = std::vector<std::pair<std::string, std::uint64_t>>;
[[nodiscard]] EventCounts RefusedAdds();
[[nodiscard]] EventCounts Repairs();

}  // namespace nomad_bridge::state
