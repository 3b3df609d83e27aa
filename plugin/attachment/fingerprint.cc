#include "plugin/attachment/fingerprint.h"

#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"

namespace nomad_bridge::attachment {
namespace {

// What attachments share: a bridge, or the gateway of a VLAN.
bool IsSegment(const rtnl::Link& link) {
  return link.kind == "bridge" || link.kind == "vlan";
}

std::string Describe(const rtnl::Link& link) {
  const auto digit = [](bool value) { return value ? '1' : '0'; };
  return Format("{} {} {} {}{}{}{}{}{}\n",
                link.name,
                link.index,
                link.master,
                digit(link.up),
                digit(link.promiscuous),
                digit(link.port.hairpin),
                digit(link.port.isolated),
                digit(link.port.forwards_groups),
                digit(link.locked));
}

std::string DescribeSegment(state::Host& host, const rtnl::Link& link) {
  std::string text;
  for (const Cidr& address : host.net.Addresses(link)) {
    text += Cat(address, ' ');
  }
  for (const char* const setting : {"ipv4/conf/{}/forwarding",
                                    "ipv4/conf/{}/route_localnet",
                                    "ipv6/conf/{}/accept_ra",
                                    "ipv6/conf/{}/disable_ipv6"}) {
    std::string name = Cat("net/", setting);
    name.replace(name.find("{}"), 2, link.name);
    text += Cat(netlink::FindSysctl(name).value_or("-"), ' ');
  }
  return Cat(text, host.net.LacksLocalhostFilter(link) ? "open" : "filtered", '\n');
}

// Renaming or removing an entry changes its directory's time.
std::string DescribeDirectory(const std::string& path) {
  const std::optional<struct stat> status = FindStatus(path);
  return status ? Format("{} {} {} {}\n",
                         path,
                         status->st_ino,
                         status->st_mtim.tv_sec,
                         status->st_mtim.tv_nsec)
                : Cat(path, " -\n");
}

}  // namespace

std::string Fingerprint(state::Host& host, const state::Checkpoint& checkpoint) {
  std::string text = Format("{} {}\n",
                            netlink::FindSysctl("net/ipv4/ip_forward").value_or("-"),
                            netlink::FindSysctl("net/ipv6/conf/all/forwarding").value_or("-"));
  for (const rtnl::Link& link : host.net.Links()) {
    if (IsSegment(link)) {
      text += Cat(Describe(link), DescribeSegment(host, link));
    } else if (link.alias.starts_with("nomad-bridge ")) {
      text += Describe(link);
    }
  }
  for (const std::string& network : Entries(state::kStateDirectory)) {
    if (!network.starts_with('.')) {
      text += DescribeDirectory(Cat(state::kStateDirectory, '/', network));
      for (const std::string& data_dir : checkpoint.data_dirs) {
        text += DescribeDirectory(Cat(data_dir, '/', network));
      }
    }
  }
  return Hex(StableHash(text), 16);
}

}  // namespace nomad_bridge::attachment
