#include "plugin/state/record.h"

#include <algorithm>

#include "base/text.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::state {

bool Record::HasIpv6() const {
  return std::any_of(
      addresses.begin(), addresses.end(), [](const Cidr& cidr) { return !cidr.address.is_ipv4(); });
}

Mac Record::ContainerMac() const {
  const Mac derived = addresses.empty() ? Mac::ForName(Cat(HostVethName(id), " guest"))
                                        : Mac::For(addresses.front().address);
  return mac.value_or(derived);
}

}  // namespace nomad_bridge::state
