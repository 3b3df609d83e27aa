#include "plugin/port.h"

namespace nomad_bridge {

void SetPort(Rtnl& net, const Link& veth, const Port& port, const Mac& mac, LinkChange change) {
  change.port = PortFlags{.hairpin = port.hairpin, .isolated = port.isolated};
  net.Change(veth, change);
  if (port.vlans) {
    net.SetPortVlans(veth, *port.vlans);
  }
  // After the VLANs: a lock holds in those that the port has by then.
  if (port.locked) {
    net.LockPort(veth, mac);
  }
}

std::vector<std::string> PortFaults(Rtnl& net, const Link& veth, const Port& port, const Mac& mac) {
  std::vector<std::string> faults;
  if (veth.hairpin != port.hairpin) {
    faults.emplace_back("hairpin mode");
  }
  if (veth.isolated != port.isolated) {
    faults.emplace_back("isolation");
  }
  if (port.vlans && !net.HasPortVlans(veth, *port.vlans)) {
    faults.emplace_back("VLANs");
  }
  if (port.locked && !net.IsPortLocked(veth, mac)) {
    faults.emplace_back("MAC check");
  }
  return faults;
}

}  // namespace nomad_bridge
