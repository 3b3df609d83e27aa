// loopback: the container's lo. CNI_IFNAME is ignored, as in the reference plugin: Nomad passes
// that of the next plugin.
#include "base/error.h"
#include "base/text.h"
#include "plugin/commands/commands.h"
#include "plugin/commands/session.h"
#include "plugin/link/container_setup.h"

namespace nomad_bridge::commands {
namespace {

constexpr const char* kLo = "lo";

// The kernel gives lo its addresses. Any but a loopback address is a mistake that would be noticed
// much later.
cni::Result Describe(link::Container& container, const std::string& sandbox) {
  const std::optional<rtnl::Link> lo = container.net.FindLink(kLo);
  cni::Result result;
  result.interfaces = {{.name = kLo, .mac = Mac{}.Text(), .sandbox = sandbox}};
  for (const Cidr& address : container.net.Addresses(lo.value())) {
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

void AddLoopback(const cni::Request& request, const cni::PluginType& type, int out) {
  const config::Config config = config::ParseConfig(request, type);
  link::Container container = link::OpenContainer(request, netlink::Netns::Current());
  link::BringUpLoopback(container);
  const cni::Result result = Describe(container, request.netns_path);
  cni::Print(config.prev_result.value_or(result), request.cni_version, out);
}

// lo goes with the container. By now CNI_NETNS may lead to another container's namespace, if a
// process has the number of one that has ended: its lo stays up.
void DelLoopback(const cni::Request& /*request*/, const cni::PluginType& /*type*/) {}

void CheckLoopback(const cni::Request& request, const cni::PluginType&) {
  link::Container container = link::OpenContainer(request, netlink::Netns::Current());
  ThrowIfChanged(request.id, link::DiffLoopback(container));
}

}  // namespace nomad_bridge::commands
