#include "plugin/state/record.h"

#include <algorithm>
#include <ctime>

#include "base/text.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::state {

Record::DefaultRoutes Record::DefaultRoutes::Of(const std::vector<Route>& routes) {
  DefaultRoutes found;
  for (const Route& route : routes) {
    if (route.IsDefault()) {
      found.Add(route.destination.address.family());
    }
  }
  return found;
}

std::optional<Phase> Record::PhaseOf(cni::Part part) const {
  const auto found = parts.find(part);
  return found != parts.end() ? std::optional(found->second) : std::nullopt;
}

bool Record::HasRules() const {
  return HasAny({cni::Part::kMasquerade, cni::Part::kForward, cni::Part::kPorts});
}

bool Record::HasAny(const cni::Parts& some) const {
  return std::ranges::any_of(some, [&](cni::Part part) { return Has(part); });
}

bool Record::IsAny(Phase phase) const {
  return std::ranges::any_of(parts, [&](const auto& part) { return part.second == phase; });
}

cni::Parts Record::AllParts() const {
  cni::Parts all;
  for (const auto& each : parts) {
    all.insert(each.first);
  }
  return all;
}

Record Record::Without(const cni::Parts& some) const {
  Record rest = *this;
  std::erase_if(rest.parts, [&](const auto& part) { return some.contains(part.first); });
  return rest;
}

Record Record::With(const cni::Parts& some, Phase phase) const {
  Record changed = *this;
  for (const cni::Part part : some) {
    changed.parts[part] = phase;
  }
  return changed;
}

Record Record::Only(const cni::Parts& some) const {
  Record only = *this;
  std::erase_if(only.parts, [&](const auto& part) { return !some.contains(part.first); });
  return only;
}

Record Record::Finished() const {
  Record changed = *this;
  for (auto& [part, phase] : changed.parts) {
    phase = phase == Phase::kMaking ? Phase::kLive : phase;
  }
  return changed;
}

cni::Workload Record::Workload() const {
  return cni::WorkloadOf(cni::Shorten(labels));
}

Record Record::OnlyLive() const {
  Record live = *this;
  std::erase_if(live.parts, [](const auto& part) { return part.second != Phase::kLive; });
  return live;
}

std::optional<Ip> Record::OwnGateway(Family family) const {
  const auto gateway = std::ranges::find_if(
      link.gateways, [&](const Cidr& each) { return each.address.family() == family; });
  return gateway == link.gateways.end() ? std::nullopt : std::optional(gateway->address);
}

Mac Record::ContainerMac() const {
  if (link.mac) {
    return *link.mac;
  }
  return ipam.addresses.empty() ? Mac::ForName(Cat(HostVethName(id), " container"))
                                : Mac::For(ipam.addresses.front().address);
}

bool Record::Ipam::IsSoonGivenAgain(const Ip& address) const {
  constexpr std::uint64_t kMany = 1 << 16;
  return address.is_ipv4() || std::ranges::any_of(ranges, [&](const ipam::RangeSet& set) {
           return std::ranges::any_of(set, [&](const ipam::Range& range) {
             return range.Contains(address) && range.last < range.first.Plus(kMany);
           });
         });
}

Record IntentOf(const cni::Request& request,
                const cni::PluginType& type,
                const config::Config& config,
                const netlink::NetnsId& container) {
  const Record record{.id = request.id,
                      .labels = config.labels,
                      .netns_path = request.netns_path,
                      .netns = container,
                      .created = static_cast<std::uint64_t>(std::time(nullptr)),
                      .link = {config.link},
                      .ipam = {.data_dir = config.ipam.data_dir, .ranges = config.ipam.ranges},
                      .rules = {config.rules}};
  return record.With(type.parts, Phase::kMaking);
}

}  // namespace nomad_bridge::state
