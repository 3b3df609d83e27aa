// What links have counted, summed by workload for `metrics`, and kept when a link is deleted. No
// counter that `metrics` prints ever falls, whatever is killed and whenever.
//
// /run/nomad-bridge/.traffic-log
//   What deletes a link first appends a line to this file (base/append_log.h).
// /run/nomad-bridge/.traffic-totals
//   Replaced by every run of `metrics`: a line per link that it knows of, and one per workload with
//   the sum of all links that have been folded.
//
// A line of either has twelve fields, each ended by a tab: since when the link is gone (Unix time
// in s; 0: it is not, or only its deletion is known), its index, bytes, packets and drops received,
// the same sent, its name, Nomad's namespace, job and group. The line of a folded sum has index 0
// and no name. Units are the kernel's, at the host's end: what that received, the allocation sent.
//
// A link is its name and index, which no two have in one boot, and what is known of it only rises.
// So a line that is read twice counts once, and these orders need no lock:
//   A DEL appends, then deletes. The other way round, `metrics` in between would find neither link
//     nor line. If it finds both, or a killed DEL is run again and appends again, the larger counts
//     are true.
//   `metrics` lists the links, then reads the log. The other way round, it would miss a DEL in
//     between.
//   `metrics` replaces the totals, then punches the hole, then prints. If it is killed before the
//     hole, the next one reads the same lines again. Printed first, a figure could be forgotten.
//   A link is folded once it has been gone for a minute: a DEL that has found a link which then
//     goes with its namespace appends a line about a link that is gone already.
//
// Locks    `metrics` alone takes one, flock(2) of the log, from before it lists the links, so that
//          a run never writes older counts over those of another. Deleting a link takes none.
// Limits   Of a link whose line the log does not take, what `metrics` saw last stays. A workload
//          without an attachment for a day is forgotten, earlier if the totals would exceed 16 MiB.
//          One of a periodic or dispatched job is added to its parent's after an hour: its job runs
//          once, and the sum of the family must not fall.
// Errors   Counting never fails a command: it is logged and ignored. Only Lock() throws kTryAgain.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/file_lock.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/cni/labels.h"

namespace nomad_bridge::link {

// Before `link` is deleted, which has just been asked for.
void NoteTraffic(const rtnl::Link& link, const cni::Workload& workload);

// An attachment.
struct Counted {
  cni::Workload workload;
  const rtnl::Link* link;  // or null
};

class TrafficTotals {
 public:
  // Neither reads nor writes what is known: of links that are gone, Settle() knows nothing.
  TrafficTotals() = default;
  // Waits for other runs. If the log cannot be locked, Settle() reads and does not write.
  [[nodiscard]] static TrafficTotals Lock();

  // What each workload has counted, and under a parent job what its forgotten children had.
  // `links`: all of the node, listed since Lock().
  [[nodiscard]] std::map<cni::Workload, rtnl::LinkCounters> Settle(
      const std::vector<rtnl::Link>& links,
      const std::vector<Counted>& attachments) const;

 private:
  bool reads_ = false;
  std::optional<FileLock> lock_;
};

}  // namespace nomad_bridge::link
