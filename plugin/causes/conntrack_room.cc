#include "plugin/causes/conntrack_room.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/text.h"
#include "netlink/core/sysctl.h"

namespace nomad_bridge::causes {

Fix ConntrackRoom::Enlarge() const {
  // More are in it than it may have where the limit was lowered.
  return Cat("sysctl -w net/netfilter/nf_conntrack_max=", std::max(used, most) * 2);
}

ConntrackRoom FindConntrackRoom() {
  return {.used = netlink::SysctlNumber("net/netfilter/nf_conntrack_count"),
          .most = netlink::SysctlNumber("net/netfilter/nf_conntrack_max")};
}

Causes FindConntrackTimeouts() {
  struct Timeout {
    std::string_view state;
    int seconds;  // the kernel's default
  };
  constexpr std::array<Timeout, 2> kTimeouts = {{{"syn_sent", 120}, {"established", 432000}}};
  Causes causes;
  for (const Timeout& timeout : kTimeouts) {
    const std::string setting = Cat("net/netfilter/nf_conntrack_tcp_timeout_", timeout.state);
    if (netlink::SysctlNumber(setting) == 0) {
      causes.push_back({.text = Format("{} is 0: the node forgets connections", setting),
                        .fix = Format("sysctl -w {}={}", setting, timeout.seconds)});
    }
  }
  return causes;
}

}  // namespace nomad_bridge::causes
