#include "plugin/link/bridge_port.h"

namespace nomad_bridge::link {

void SetPort(rtnl::Socket& net,
             const rtnl::Link& veth,
             const state::BridgePort& port,
             const Mac& mac,
             rtnl::LinkChange change) {
  change.port = rtnl::PortFlags{.hairpin = port.hairpin, .isolated = port.isolated};
  net.Change(veth, change);
  if (port.vlans) {
    net.SetPortVlans(veth, *port.vlans);
  }
  // After the VLANs: the lock covers those that the port is a member of by then.
  if (port.locked) {
    net.LockPort(veth, mac);
  }
}

std::vector<std::string> DiffBridgePort(rtnl::Socket& net,
                                        const rtnl::Link& veth,
                                        const state::BridgePort& port,
                                        const Mac& mac) {
  std::vector<std::string> mismatches;
  if (veth.hairpin != port.hairpin) {
    mismatches.emplace_back("hairpin mode");
  }
  if (veth.isolated != port.isolated) {
    mismatches.emplace_back("isolation");
  }
  if (port.vlans && !net.HasPortVlans(veth, *port.vlans)) {
    mismatches.emplace_back("VLANs");
  }
  if (port.locked && !net.IsPortLocked(veth, mac)) {
    mismatches.emplace_back("MAC check");
  }
  return mismatches;
}

}  // namespace nomad_bridge::link
