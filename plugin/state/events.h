// Counts events on this node, for `metrics`: repairs by area, refused ADDs by error code, runs of
// reconcile that failed.
//
// Shapes   /run/nomad-bridge/.counts/refused-<code>, .counts/repaired-<area>,
//          .counts/failed-reconcile: a file's size is its count. A command appends a byte for each
//          event of a kind, in one call. So nobody needs a lock, and a killed command has counted
//          all of these events or none.
// Limits   A file per area, and per code of our own ADDs. Other codes, such as those of an IPAM
//          plugin, are counted in "refused-other".
// Errors   None: counting never fails a command. `doctor` reports if /run is full.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/finding.h"

namespace nomad_bridge::state {

void CountRefusedAdd(Code code);
// Counts a run that could not repair something.
void CountFailedReconcile();

// Names on stderr what was repaired, and counts it, when the object is destroyed, even if the
// command fails.
class RepairLog {
 public:
  explicit RepairLog(const Findings& findings) : findings_(findings) {}
  RepairLog(const RepairLog&) = delete;
  RepairLog& operator=(const RepairLog&) = delete;
  ~RepairLog();

 private:
  const Findings& findings_;
};

// Returns counts since the boot, by code or by area, including zeros.
using EventCounts = std::vector<std::pair<std::string, std::uint64_t>>;
[[nodiscard]] EventCounts RefusedAdds();
[[nodiscard]] EventCounts Repairs();
[[nodiscard]] std::uint64_t FailedReconciles();

}  // namespace nomad_bridge::state
