#include "plugin/causes/trail.h"

#include <algorithm>

namespace nomad_bridge::causes {

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

bool Trail::IsCaught(probe::PacketKind packet) const {
  return std::ranges::any_of(steps, [&](const Seen& each) {
    return each.marker && each.packet == packet &&
           each.step.verdict.code == nft::Verdict::Code::kDrop;
  });
}

bool Trail::IsRefused() const {
  return std::ranges::any_of(steps, &probe::Sighting::IsReset);
}

}  // namespace nomad_bridge::causes
