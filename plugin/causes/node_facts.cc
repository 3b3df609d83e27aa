#include "plugin/causes/node_facts.h"

#include <algorithm>

#include "base/memo.h"
#include "plugin/link/uplink.h"

namespace nomad_bridge::causes {

const std::vector<rtnl::Link>& NodeFacts::Links() {
  return links_ ? *links_ : links_.emplace(host.net.Links());
}

std::optional<rtnl::Link> NodeFacts::FindLink(const std::string& name) {
  const auto found = std::ranges::find(Links(), name, &rtnl::Link::name);
  return found == Links().end() ? std::nullopt : std::optional(*found);
}

std::optional<rtnl::Link> NodeFacts::FindLink(int index) {
  const auto found = std::ranges::find(Links(), index, &rtnl::Link::index);
  return found == Links().end() ? std::nullopt : std::optional(*found);
}

const std::vector<rtnl::Link>& NodeFacts::Uplinks() {
  return uplinks_ ? *uplinks_ : uplinks_.emplace(link::Uplinks(Links()));
}

const std::vector<Cidr>& NodeFacts::Addresses(const rtnl::Link& link) {
  return AskOnce(addresses_, link.index, [&] { return host.net.Addresses(link); });
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

const state::Record::DefaultRoutes& NodeFacts::DefaultRoutes() {
  return default_routes_ ? *default_routes_
                         : default_routes_.emplace(link::FindDefaultRoutes(host.net));
}

bool HasDefaultRoute(const std::vector<Route>& routes, Family family) {
  return std::ranges::any_of(routes, [&](const Route& route) {
    return route.destination.prefix_length == 0 && route.destination.address.family() == family;
  });
}

}  // namespace nomad_bridge::causes
