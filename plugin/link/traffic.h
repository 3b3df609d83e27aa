// What outlives a host veth: the traffic that it counted, summed by Nomad's group, and when its attachment
// was first seen dead. Only for what people look at.
//
// Shapes   /run/nomad-bridge/.traffic/<hash>  one per namespace, job and group, a line each; then, on one
//                                             line, twelve numbers of twenty digits: what deleted links had
//                                             received and sent (bytes, packets, dropped), and the same of
//                                             what `metrics` printed last. Always of the same length, so
//                                             that it is overwritten in one write(2).
//          /run/nomad-bridge/.dead/<veth>     empty; its time of modification is the first sight
// Units    as the kernel counts at the host's end: what it received, the allocation sent.
// Lives    on tmpfs, like the links. A group without an attachment for a day is forgotten.
// Locks    flock(2) of a group's file, from before a link is deleted until what it counted is written, and
//          for `metrics` from before it lists the links: it sees each count once, in a link or in a file.
// Errors   Counting never fails a command: it is logged and ignored.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/file_lock.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/cni/labels.h"

namespace nomad_bridge::link {

// Calls `delete_link`, which deletes a link that has counted `counters`, and keeps those.
void DeleteCounted(const cni::ShortLabels& labels,
                   const rtnl::LinkCounters& counters,
                   const std::function<void()>& delete_link);

// The files of some groups and of all that have one, locked.
class TrafficTotals {
 public:
  [[nodiscard]] static TrafficTotals Lock(const std::set<cni::Workload>& groups);

  // What each group has counted, if its present links have counted `live`: never less than the last
  // time. (Links that went with their namespace took their counts along.)
  [[nodiscard]] std::map<cni::Workload, rtnl::LinkCounters> Settle(
      const std::map<cni::Workload, rtnl::LinkCounters>& live);

 private:
  std::map<cni::Workload, FileLock> files_;
};

// Remembers these attachments, by their host veths, as dead from now on, unless they are known as such;
// and forgets all others.
void NoteDead(const std::set<std::string>& host_veths);
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> FirstSeenDead(
    const AttachmentId& id);

}  // namespace nomad_bridge::link
