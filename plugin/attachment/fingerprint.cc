#include "plugin/attachment/fingerprint.h"

#include <algorithm>
#include <set>

#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/foreign/tools.h"
#include "plugin/link/container.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::attachment {
namespace {

std::string Describe(const rtnl::Link& link) {
  const auto digit = [](bool value) { return value ? '1' : '0'; };
  return Format("{} {} {} {}{}{}{}{}{}{}{}\n",
                link.name,
                link.index,
                link.master,
                digit(link.up),
                digit(link.promiscuous),
                digit(link.port.hairpin),
                digit(link.port.isolated),
                digit(link.port.forwards_groups),
                digit(link.locked),
                digit(link.nf_call.ipv4),
                digit(link.nf_call.ipv6));
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

std::set<std::string> KeysOf(const std::map<std::string, std::string>& map) {
  std::set<std::string> keys;
  for (const auto& [key, value] : map) {
    keys.insert(key);
  }
  return keys;
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

std::string DescribeShared(state::Host& host) {
  std::string text = Format("{} {} {}\n",
                            netlink::FindSysctl("net/ipv4/ip_forward").value_or("-"),
                            netlink::FindSysctl("net/ipv6/conf/all/forwarding").value_or("-"),
                            foreign::FilterFingerprint());
  std::set<std::string> ours;
  for (const AttachmentId& id : host.records.List("")) {
    ours.insert(state::HostVethName(id));
  }
  for (const rtnl::Link& port : host.net.Ports()) {
    if (ours.contains(port.name)) {
      text += Describe(port);
    } else if (!port.name.starts_with("veth")) {
      text += Format("{} {}\n", port.name, port.master);  // an uplink, perhaps of a bridge of ours
    }
  }
  for (const std::string& network : Entries(state::kStateDirectory)) {
    text += network.starts_with('.') ? ""
                                     : DescribeDirectory(Cat(state::kStateDirectory, '/', network));
  }
  return text;
}

}  // namespace

Fingerprint::Fingerprint(state::Host& host) : host_(host), shared_(DescribeShared(host)) {}

Fingerprint::Fingerprint(state::Host& host, const state::Checkpoint& checkpoint)
    : Fingerprint(host) {
  std::ranges::for_each(checkpoint.segments, [&](const auto& ifname) { AddSegment(ifname); });
  std::ranges::for_each(checkpoint.data_dirs, [&](const auto& path) { AddDataDir(path); });
  std::ranges::for_each(checkpoint.renewable, [&](const auto& name) { AddContainer(name); });
}

void Fingerprint::AddSegment(const std::string& ifname) {
  if (!segments_.contains(ifname)) {
    const std::optional<rtnl::Link> link = host_.net.FindLink(ifname);
    segments_[ifname] = link ? Cat(Describe(*link), DescribeSegment(host_, *link)) : "";
  }
}

void Fingerprint::AddDataDir(const std::string& path) {
  const auto [known, is_new] = data_dirs_.try_emplace(path);
  for (const std::string& network : is_new ? Entries(path) : std::vector<std::string>()) {
    known->second += DescribeDirectory(Cat(path, '/', network));
  }
}

void Fingerprint::AddContainer(const std::string& name) {
  const std::size_t ifname_end = name.find(' ');
  const auto inside = link::FindInside(name.substr(ifname_end + 1), name.substr(0, ifname_end));
  std::string& text = containers_[name];
  for (const Cidr& address : inside ? inside->addresses : std::vector<Cidr>()) {
    text += Cat(address, '\n');
  }
}

void Fingerprint::NoteIn(state::Checkpoint& checkpoint) const {
  checkpoint.fingerprint = Text();
  checkpoint.segments = KeysOf(segments_);
  checkpoint.data_dirs = KeysOf(data_dirs_);
  checkpoint.renewable = KeysOf(containers_);
}

std::string Fingerprint::Text() const {
  std::string text = shared_;
  for (const auto* const parts : {&segments_, &data_dirs_, &containers_}) {
    for (const auto& [name, part] : *parts) {
      text += Cat(name, '\n', part);
    }
  }
  return Hex(StableHash(text), 16);
}

}  // namespace nomad_bridge::attachment
