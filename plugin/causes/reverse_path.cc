#include "plugin/causes/reverse_path.h"

#include <algorithm>
#include <cerrno>

#include "base/file.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"

namespace nomad_bridge::causes {
bool IsReversePathStrict(std::string_view ifname) {
  constexpr long kStrict = 1;
  return std::max(netlink::SysctlNumber(netlink::Ipv4Setting("all", "rp_filter")),
                  netlink::SysctlNumber(netlink::Ipv4Setting(ifname, "rp_filter"))) == kStrict;
}

Fix LoosenReversePath(std::string_view ifname) {
  return Cat("sysctl -w ", ShellWord(Cat(netlink::Ipv4Setting(ifname, "rp_filter"), "=2")));
}

bool IsByReversePath(rtnl::Socket& net,
                     const rtnl::RouteAnswer& answer,
                     const rtnl::Link& link,
                     const Ip& source) {
  // Since Linux 6.15 the error is EINVAL, which has many other reasons, too.
  if (answer.error != EINVAL || !source.is_ipv4()) {
    return answer.error == EXDEV;
  }
  const rtnl::RouteAnswer back = net.LookUpRoute({.destination = source});
  return IsReversePathStrict(link.name) && back.error == 0 && back.link != link.index;
}

Cause StrictReversePath(const rtnl::Link& link, const std::string& source) {
  return {.text = Format("packets that arrive on '{}' from {} are dropped: the way back leaves by "
                         "another interface, and rp_filter is strict ({}, or that of all)",
                         link.name,
                         source,
                         netlink::Ipv4Setting(link.name, "rp_filter")),
          .fix = LoosenReversePath(link.name)};
}

// The file has pairs of lines: a line of names, and a line of numbers. See proc_pid_net(5),
// netstat.
bool HasReversePathDropped() {
  const std::vector<std::string> lines =
      SplitFields(FindFile("/proc/self/net/netstat").value_or(""), "\n");
  for (std::size_t at = 0; at + 1 < lines.size(); at += 2) {
    const std::vector<std::string> names = SplitFields(lines[at], " ");
    const std::vector<std::string> numbers = SplitFields(lines[at + 1], " ");
    const auto found = std::ranges::find(names, "IPReversePathFilter");
    const auto column = static_cast<std::size_t>(found - names.begin());
    if (column < std::min(names.size(), numbers.size())) {
      return numbers[column] != "0";
    }
  }
  return false;
}

}  // namespace nomad_bridge::causes
