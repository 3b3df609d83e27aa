// The host end of an attachment as a port of its bridge: flags, VLANs, and the one MAC that may
// come in. Set by ADD, kept in the record, put right from there by whoever finds it changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ip.h"
#include "netlink/rtnl.h"

namespace nomad_bridge {

struct Port {
  bool hairpin = false;
  bool isolated = false;
  bool locked = false;             // only the guest's own MAC comes in
  std::optional<PortVlans> vlans;  // nullopt: those that the kernel gives every port
};

// Makes it so; again is fine. `mac` is the guest's. `change`: what else there is to change of the
// link, in the same message.
void SetPort(Rtnl& net, const Link& veth, const Port& port, const Mac& mac, LinkChange change = {});

// What is not so: "hairpin mode", "isolation", "VLANs", "MAC check".
[[nodiscard]] std::vector<std::string> PortFaults(Rtnl& net,
                                                  const Link& veth,
                                                  const Port& port,
                                                  const Mac& mac);

}  // namespace nomad_bridge
