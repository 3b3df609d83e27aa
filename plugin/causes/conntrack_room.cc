#include "plugin/causes/conntrack_room.h"

#include <algorithm>

#include "base/text.h"
#include "netlink/core/sysctl.h"

namespace nomad_bridge::causes {

Fix ConntrackRoom::Enlarge() const {
  // After the limit was lowered, the table may hold more than the limit allows.
  return Cat("sysctl -w net/netfilter/nf_conntrack_max=", std::max(used, most) * 2);
}

ConntrackRoom FindConntrackRoom() {
  return {.used = netlink::SysctlNumber("net/netfilter/nf_conntrack_count"),
          .most = netlink::SysctlNumber("net/netfilter/nf_conntrack_max")};
}

}  // namespace nomad_bridge::causes
