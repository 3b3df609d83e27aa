// loopback: the guest's lo. CNI_IFNAME is not looked at, as in the reference plugin: Nomad runs it
// with that of the next one.
#include "base/error.h"
#include "base/text.h"
#include "plugin/checking.h"
#include "plugin/guest.h"
#include "plugin/link.h"
#include "plugin/verbs.h"

namespace nomad_bridge {
namespace {

constexpr const char* kLo = "lo";

// What lo has is the kernel's doing; anything but loopback addresses is somebody's mistake, which
// would come to light much later.
Result Describe(Guest& guest, const std::string& sandbox) {
  const std::optional<Link> lo = guest.net.FindLink(kLo);
  Result result;
  result.interfaces = {{.name = kLo, .mac = Mac{}.Text(), .sandbox = sandbox}};
  for (const Cidr& address : guest.net.Addresses(lo.value())) {
    if (!address.address.IsLoopback()) {
      throw Error(Code::kConflict,
                  Cat("loopback interface found with non-loopback address ", address),
                  "remove it from 'lo'");
    }
    result.ips.push_back({.interface = 0, .address = address});
  }
  return result;
}

}  // namespace

void AddLoopback(const Request& request, const Name& name, int out) {
  const Config config = ParseConfig(request, name);
  Guest guest = OpenGuest(request, Host::Open());
  BringUpLoopback(guest);
  const Result result = Describe(guest, request.netns_path);
  Print(config.prev_result.value_or(result), request.cni_version, out);
}

void DelLoopback(const Request& request, const Name&) {
  if (std::optional<Guest> guest = FindGuest(request, Host::Open())) {
    if (const std::optional<Link> lo = guest->net.FindLink(kLo)) {
      guest->net.Change(*lo, {.up = false});
    }
  }
}

void CheckLoopback(const Request& request, const Name&) {
  Guest guest = OpenGuest(request, Host::Open());
  ThrowIfChanged(request.who, LoopbackDifferences(guest));
}

}  // namespace nomad_bridge
