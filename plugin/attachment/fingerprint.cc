#include "plugin/attachment/fingerprint.h"

#include <algorithm>
#include <set>

#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "plugin/foreign/tools.h"
#include "plugin/link/container.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::attachment {
namespace {

std::string Describe(const rtnl::Link& link) {
  unsigned int flags = 0;
  for (const bool flag : {link.up,
                          link.promiscuous,
                          link.vlan_filtering,
                          link.port.hairpin,
                          link.port.isolated,
                          link.port.forwards_groups,
                          link.locked,
                          link.learns,
                          link.nf_call.ipv4,
                          link.nf_call.ipv6}) {
    flags = flags * 2 + (flag ? 1 : 0);
  }
  return Cat(link.name, ' ', link.index, ' ', link.master, ' ', flags, '\n');
}

std::string DescribeSegment(state::Host& host, const rtnl::Link& link) {
  std::string text;
  for (const Cidr& address : host.net.Addresses(link)) {
    text += Cat(address, ' ');
  }
  return Cat(text,
             link.mac,
             host.net.Settings(link),
             host.net.LacksLocalhostFilter(link) ? " open" : " filtered",
             '\n');
}

std::string DescribeVlans(state::Host& host) {
  std::string text;
  for (const rtnl::PortVlan& each : host.net.AllVlans()) {
    text += Format("{} {}-{} {}{}\n",
                   each.port,
                   each.vlan.ids.first,
                   each.vlan.ids.last,
                   each.vlan.pvid ? '1' : '0',
                   each.vlan.untagged ? '1' : '0');
  }
  return text;
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

// What the bridges know to be behind these ports.
std::string DescribeFdb(state::Host& host, const std::set<int>& ports) {
  std::string text;
  for (const rtnl::FdbEntry& entry : host.net.AllFdbEntries()) {
    if (ports.contains(entry.port)) {
      text +=
          Format("{} {} {} {}\n", entry.port, entry.mac, entry.vlan, static_cast<int>(entry.kind));
    }
  }
  return text;
}

std::string DescribePorts(state::Host& host) {
  std::string text;
  std::set<int> locked;
  for (const rtnl::Link& port : host.net.Ports()) {
    const bool is_ours = state::IsHostVethName(port.name);
    if (is_ours) {
      text += Describe(port);
    } else if (!port.name.starts_with("veth")) {
      text += Format("{} {}\n", port.name, port.master);  // an uplink, perhaps of a bridge of ours
    }
    if (is_ours && port.locked) {
      locked.insert(port.index);
    }
  }
  return locked.empty() ? text : text + DescribeFdb(host, locked);
}

std::string DescribeShared(state::Host& host) {
  std::string text = Format("{}{} {}\n",
                            host.net.ForwardsAll(Family::kIpv4) ? '1' : '0',
                            host.net.ForwardsAll(Family::kIpv6) ? '1' : '0',
                            foreign::FilterFingerprint());
  text += DescribePorts(host);
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
    if (link && link->vlan_filtering && vlans_.empty()) {
      vlans_ = DescribeVlans(host_);
    }
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
  std::string text = shared_ + vlans_;
  for (const auto* const parts : {&segments_, &data_dirs_, &containers_}) {
    for (const auto& [name, part] : *parts) {
      text += Cat(name, '\n', part);
    }
  }
  return Hex(StableHash(text), 16);
}

}  // namespace nomad_bridge::attachment
