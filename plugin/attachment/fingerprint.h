// What a reconcile of all attachments looks at besides the rules, in short: as long as it is the
// same as when nothing was found wrong, nothing needs to be looked at again.
//
// Holds   our bridges and VLAN gateways with their state and addresses; the state and flags of our
//         ports, their VLANs, and the FDB entries of those that are locked to a MAC; the sysctls
//         and the tc filter that an ADD sets on a bridge; the size of iptables-legacy's tables;
//         when records and leases were last added or removed; the addresses of containers that
//         another IPAM plugin than host-local gave them
// Costs   one dump of bridge ports, of their VLANs where a bridge filters by them, and of FDB
//         entries where a port of ours is locked; some questions per bridge and per such container
// Errors  kKernel
#pragma once

#include <map>
#include <string>

#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

class Fingerprint {
 public:
  // Of what all attachments share, as it is now.
  explicit Fingerprint(state::Host& host);
  // Of all that `checkpoint` names, too.
  Fingerprint(state::Host& host, const state::Checkpoint& checkpoint);

  // A bridge or VLAN gateway, and a directory of leases, as they are when they are first added:
  // before they are looked at, so that what changes meanwhile makes it another one.
  void AddSegment(const std::string& ifname);
  void AddDataDir(const std::string& path);
  // "eth0 /run/netns/a": the addresses of that interface there.
  void AddContainer(const std::string& name);

  void NoteIn(state::Checkpoint& checkpoint) const;
  // 16 hexadecimal digits. Another one after each change, also by an ADD or a DEL of ours.
  [[nodiscard]] std::string Text() const;

 private:
  state::Host& host_;
  std::string shared_;
  std::string vlans_;  // of all ports, once a bridge filters by them
  std::map<std::string, std::string> segments_;
  std::map<std::string, std::string> data_dirs_;
  std::map<std::string, std::string> containers_;
};

}  // namespace nomad_bridge::attachment
