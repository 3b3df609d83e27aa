// What we intend and what we did, per attachment: all that DEL, GC, takeover and repair need.
//
// Written  whole before the first change to the kernel, removed after the last: record_store.h.
// Shape    of its file: record_json.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "firewall/address_policy.h"
#include "firewall/ruleset.h"
#include "netlink/core/netns.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/cni/delegated_ipam.h"
#include "plugin/cni/labels.h"
#include "plugin/cni/part.h"
#include "portmap/mapping.h"

namespace nomad_bridge::state {

// The host end of an attachment as a port of its bridge.
struct BridgePort {
  bool hairpin = false;
  bool isolated = false;
  bool locked = false;                   // only the container's own MAC comes in
  std::optional<rtnl::PortVlans> vlans;  // nullopt: those that the kernel gives every port
};

// How far a list's DELs, one name after the other, have taken an attachment apart. Any ADD makes it
// kNone again.
enum class DelProgress {
  kNone,
  kStarted,    // one name has taken its part back
  kRulesGone,  // and another: nothing of it is in nf_tables any more, whatever its parts
};

struct Record {
  AttachmentId id;
  cni::Parts parts;  // what of it we made, in one process or in several
  cni::Labels labels;
  std::string netns_path;
  netlink::NetnsId netns;
  std::string bridge;  // that our host veth is a port of
  // The link by which the node and the attachments behind it reach each other: the bridge itself, or
  // the gateway of its VLAN. Also that of somebody else's bridge.
  std::string gateway_ifname;
  std::vector<std::string>
      foreign_host_ifnames;  // the same, its alone: a foreign plugin's host ends
  BridgePort port;
  std::optional<Mac> mac;                            // the container's, if the config asked for one
  std::vector<Cidr> gateways;                        // what the gate must have for this attachment
  std::vector<Cidr> addresses;                       // the container's
  std::string data_dir;                              // where its leases are
  std::vector<Cidr> leases;                          // those of the addresses that are leased there
  std::optional<cni::DelegatedIpam> delegated_ipam;  // or who gave them
  DelProgress del_progress = DelProgress::kNone;
  bool ip_masq = false;
  bool snat = false;
  bool masq_all = false;
  firewall::ForwardHook forward_hook;
  firewall::Ingress ingress = firewall::Ingress::kOpen;
  std::string firewalld_zone;  // for the gate, where firewalld runs
  std::vector<portmap::DnatEntry> ports;

  [[nodiscard]] bool Has(cni::Part part) const { return parts.contains(part); }
  [[nodiscard]] bool HasIpv6() const;
  // What the container's interface is made with: asked for, else derived from its first address.
  [[nodiscard]] Mac ContainerMac() const;
};

}  // namespace nomad_bridge::state
