#include "plugin/causes/trail.h"

#include <algorithm>

namespace nomad_bridge::causes {
namespace {

bool IsCatch(const Seen& seen, probe::PacketKind packet) {
  return seen.marker && !seen.marker->is_elsewhere && seen.packet == packet &&
         seen.step.verdict.code == nft::Verdict::Code::kDrop;
}

}  // namespace

const Seen* Trail::Find(const Place& place) const {
  const auto found = std::ranges::find_if(steps, [&](const Seen& each) {
    return each.marker && each.side == place.side && each.packet == place.packet &&
           each.marker->family == place.family && each.marker->point == place.point &&
           each.marker->is_end == place.is_end &&
           (place.device.empty() || each.marker->device == place.device);
  });
  return found == steps.end() ? nullptr : &*found;
}

const Seen* Trail::LastMarker() const {
  const auto found = std::find_if(
      steps.rbegin(), steps.rend(), [](const Seen& each) { return each.marker.has_value(); });
  return found == steps.rend() ? nullptr : &*found;
}

const Seen* Trail::Drop() const {
  const auto found = std::ranges::find_if(steps, &probe::Sighting::IsDrop);
  return found == steps.end() ? nullptr : &*found;
}

const Seen* Trail::LookupDrop() const {
  const auto found = std::ranges::find_if(lookups, &probe::Sighting::IsDrop);
  return found == lookups.end() ? nullptr : &*found;
}

const Seen* Trail::FindCaught(probe::PacketKind packet) const {
  const auto found =
      std::ranges::find_if(steps, [&](const Seen& each) { return IsCatch(each, packet); });
  return found == steps.end() ? nullptr : &*found;
}

bool Trail::HasGoneElsewhere() const {
  return std::ranges::any_of(
      steps, [](const Seen& each) { return each.marker && each.marker->is_elsewhere; });
}

// If the kernel has no egress hooks, the datagram is caught at a hook without a device
// (netlink/probe/observer.h).
bool Trail::HasLeftForReader() const {
  return !reader_link.empty() && std::ranges::any_of(steps, [&](const Seen& each) {
    return IsCatch(each, probe::PacketKind::kRequest) &&
           (each.marker->device.empty() || each.marker->device == reader_link);
  });
}

bool Trail::IsRefused() const {
  return std::ranges::any_of(steps, &probe::Sighting::IsReset);
}

}  // namespace nomad_bridge::causes
