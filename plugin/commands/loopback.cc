// loopback: the container's lo. Ignores CNI_IFNAME, as the reference plugin does: Nomad passes the
// interface of the next plugin.
#include "base/error.h"
#include "base/text.h"
#include "plugin/commands/commands.h"
#include "plugin/commands/session.h"
#include "plugin/link/container_setup.h"

namespace nomad_bridge::commands {
namespace {

constexpr const char* kLo = "lo";

// Returns the result with lo's addresses, which the kernel assigns. Throws if an address is no
// loopback address: nobody would notice this mistake until much later.
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

// Does nothing: the kernel deletes lo with the container. CNI_NETNS may by now lead to another
// container's namespace, if a new process has the pid of an ended process; lo must stay up there.
void DelLoopback(const cni::Request& /*request*/, const cni::PluginType& /*type*/) {}

void CheckLoopback(const cni::Request& request, const cni::PluginType&) {
  link::Container container = link::OpenContainer(request, netlink::Netns::Current());
  ThrowIfChanged(request.id, TextsOf(link::FindInLoopback(container)));
}

}  // namespace nomad_bridge::commands
