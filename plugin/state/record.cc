#include "plugin/state/record.h"

#include <algorithm>

#include "base/text.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::state {

bool Record::HasAny(const cni::Parts& some) const {
  return std::ranges::any_of(some, [&](cni::Part part) { return Has(part); });
}

Record Record::Without(const cni::Parts& some) const {
  Record rest = *this;
  std::erase_if(rest.parts, [&](cni::Part part) { return some.contains(part); });
  return rest;
}

bool Record::HasIpv6() const {
  return HasFamily(ipam.addresses, Family::kIpv6);
}

Mac Record::ContainerMac() const {
  if (link.mac) {
    return *link.mac;
  }
  return ipam.addresses.empty() ? Mac::ForName(Cat(HostVethName(id), " container"))
                                : Mac::For(ipam.addresses.front().address);
}

}  // namespace nomad_bridge::state
