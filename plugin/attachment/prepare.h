// What the attachments of a network share, made before the first of them is: bridge, gateway addresses,
// forwarding, our table with the static rules. So services can bind to the bridge's address already.
//
// Shared   never undone, as in link/bridge.h; idempotent
// Errors   those of config/config.h, link/bridge.h and rules/converge.h
// Locks    The rules' is taken.
#pragma once

#include "netlink/rtnl/rtnl.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/cni/request.h"
#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

struct Prepared {
  std::string gateway_ifname;
  std::vector<Cidr> gateways;
};

// `request` is an ADD without an attachment.
Prepared PrepareNetwork(state::Host& host,
                        const cni::Request& request,
                        const cni::PluginType& type);

}  // namespace nomad_bridge::attachment
