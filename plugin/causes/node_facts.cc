#include "plugin/causes/node_facts.h"

#include <algorithm>

#include "base/memo.h"
#include "netlink/core/sysctl.h"
#include "plugin/causes/blockers.h"
#include "plugin/link/forwarding.h"
#include "plugin/link/uplink.h"

namespace nomad_bridge::causes {

const std::vector<rtnl::Link>& NodeFacts::Links() {
  if (!links_) {
    links_ = host.net.Links();
    for (std::size_t i = 0; i < links_->size(); ++i) {
      by_name_.emplace((*links_)[i].name, i);
      by_index_.emplace((*links_)[i].index, i);
    }
  }
  return *links_;
}

std::optional<rtnl::Link> NodeFacts::FindLink(const std::string& name) {
  const std::vector<rtnl::Link>& links = Links();
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(links[found->second]);
}

std::optional<rtnl::Link> NodeFacts::FindLink(int index) {
  const std::vector<rtnl::Link>& links = Links();
  const auto found = by_index_.find(index);
  return found == by_index_.end() ? std::nullopt : std::optional(links[found->second]);
}

const std::vector<rtnl::Link>& NodeFacts::Uplinks() {
  return uplinks_ ? *uplinks_ : uplinks_.emplace(link::Uplinks(Links()));
}

const std::vector<Cidr>& NodeFacts::Addresses(const rtnl::Link& link) {
  return AskOnce(addresses_, link.index, [&] { return host.net.Addresses(link); });
}

const std::vector<Route>& NodeFacts::Routes(const rtnl::Link& link) {
  return AskOnce(routes_, link.index, [&] { return host.net.Routes(link); });
}

const std::vector<rtnl::FdbEntry>& NodeFacts::OwnMacs() {
  if (!own_macs_) {
    own_macs_ = host.net.AllFdbEntries();
    std::erase_if(*own_macs_, [](const rtnl::FdbEntry& entry) {
      return entry.kind != rtnl::FdbEntry::Kind::kOwn;
    });
  }
  return *own_macs_;
}

std::optional<rtnl::Neighbour> NodeFacts::FindNeighbour(const rtnl::Link& link, const Ip& address) {
  if (!neighbours_) {
    neighbours_.emplace();
    for (const rtnl::Neighbour& each : host.net.Neighbours()) {
      neighbours_->emplace(std::pair(each.link, each.address), each);
    }
  }
  const auto found = neighbours_->find({link.index, address});
  return found == neighbours_->end() ? std::nullopt : std::optional(found->second);
}

bool NodeFacts::HasAddress(Family family) {
  const auto has = [&](const rtnl::Link& link) {
    return std::ranges::any_of(Addresses(link), [&](const Cidr& cidr) {
      return cidr.address.family() == family && !cidr.address.IsLoopback() &&
             !cidr.address.IsLinkLocal();
    });
  };
  return AskOnce(has_address_, family, [&] {
    return std::ranges::any_of(Uplinks(), has) ||
           std::ranges::any_of(Links(), [&](const rtnl::Link& link) {
             return (link.index == rtnl::kLoopbackIndex || link.kind == "dummy") && has(link);
           });
  });
}

bool NodeFacts::HasDefaultRoute(Family family) {
  return AskOnce(has_default_route_, family, [&] {
    return causes::HasDefaultRoute(host.net.Routes(), family);
  });
}

const state::Record::Ways& NodeFacts::WaysBeyond() {
  return ways_ ? *ways_ : ways_.emplace(link::FindWaysBeyond(host.net));
}

bool NodeFacts::Forwards(const rtnl::Link& gateway, const Cidr& own) {
  return AskOnce(forwards_, {gateway.index, own}, [&] {
    Mismatches found(Mode::kLook);
    link::CheckForwarding(host, gateway, {own}, found);
    return found.empty();
  });
}

bool NodeFacts::HasRulesAboutMarks(Family family) {
  return AskOnce(
      has_rules_about_marks_, family, [&] { return host.net.HasRulesAboutMarks(family); });
}

const rtnl::XfrmPolicies& NodeFacts::Xfrm() {
  return xfrm_ ? *xfrm_ : xfrm_.emplace(rtnl::XfrmPolicies::In(host.netns));
}

long NodeFacts::ArpIgnoreOfAll() {
  return arp_ignore_of_all_ ? *arp_ignore_of_all_
                            : arp_ignore_of_all_.emplace(
                                  netlink::SysctlNumber(netlink::Ipv4Setting("all", "arp_ignore")));
}

nft::Ruleset& NodeFacts::Rules() {
  return rules_ ? *rules_ : rules_.emplace(host.nft, nft::ReadQueues());
}

}  // namespace nomad_bridge::causes
