// What an ADD intends and has done: all that DEL, CHECK, GC, takeover and repair need to know of an
// attachment.
//
// Written  whole, before the first change to the kernel; removed after the last (record_store.h).
// Shape    of its file: state_json.h.
// Units    addresses are network byte order inside Ip, ports host byte order.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "firewall/address_policy.h"
#include "firewall/forward_hook.h"
#include "ipam/range.h"
#include "netlink/core/netns.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/cni/delegate.h"
#include "plugin/cni/labels.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/config/config.h"
#include "portmap/mapping.h"

namespace nomad_bridge::state {

// The host end of an attachment as a port of its bridge.
struct BridgePort {
  bool hairpin = false;
  bool isolated = false;
  bool locked = false;        // frames from any MAC but the container's are dropped
  bool source_check = false;  // it is in table bridge nomad-bridge (firewall/port_filter.h)
  std::optional<rtnl::PortVlans> vlans;  // nullopt: the kernel's default
};

// How far a part of an attachment has come. Written before the kernel is changed, by the command that
// holds the attachment's lock: while nobody does, a making or leaving part is what a killed command
// left, and anybody may take it back. Only live parts are repaired.
enum class Phase {
  kMaking,
  kLive,
  kLeaving,
  kGone,  // its own DEL is done: those of the other parts will follow
};

constexpr int kRecordVersion = 2;

struct Record {
  // Of who wrote it: of a later one there may be more than we can read.
  int version = kRecordVersion;
  std::string text;  // as it was read: keys that we do not know are written again
  AttachmentId id;
  std::map<cni::Part, Phase> parts;  // those that are ours, made by one process or by several
  cni::Labels labels;
  std::string netns_path;  // the container's network namespace, as CNI_NETNS named it
  netlink::NetnsId netns;

  struct Link {
    std::string bridge;  // of which our host veth is a port
    // What its config says of that: for one that has to be made again.
    int mtu = 0;
    config::ForceAddress force_address = config::ForceAddress::kNo;
    bool promisc_mode = false;
    // Where the node and what lies behind it reach the container: the bridge itself, or the gateway
    // of its VLAN. Also set for a foreign plugin's bridge.
    std::string gateway_ifname;
    // Without a bridge: the host ends of a foreign plugin's veth pairs, used by this container alone.
    std::vector<std::string> foreign_host_ifnames;
    std::vector<std::string>
        foreign_ports;  // those of a foreign plugin that are ports of its bridge
    BridgePort port;
    std::optional<Mac> mac;      // the container's, if the config asked for one
    std::vector<Cidr> gateways;  // addresses that gateway_ifname must have for this attachment
  } link;

  struct Ipam {
    std::vector<Cidr> addresses;  // the container's
    std::string data_dir;
    std::vector<Cidr> leases;                     // of `addresses`, those leased in data_dir
    std::vector<ipam::RangeSet> ranges;           // that they were chosen from, for people
    std::optional<cni::DelegatedIpam> delegated;  // the IPAM plugin that assigned the others
  } ipam;

  struct Rules {
    bool ip_masq = false;
    bool snat = false;
    bool masq_all = false;
    firewall::ForwardHook forward_hook;
    firewall::Ingress ingress = firewall::Ingress::kOpen;
    firewall::Inbound inbound = firewall::Inbound::kAny;
    std::string firewalld_zone;  // for gateway_ifname, where firewalld runs
    std::vector<portmap::DnatEntry> ports;
  } rules;

  // In any phase but kGone.
  [[nodiscard]] bool Has(cni::Part part) const;
  [[nodiscard]] bool HasAny(const cni::Parts& some) const;
  [[nodiscard]] bool IsAny(Phase phase) const;
  [[nodiscard]] bool IsLive(cni::Part part) const;
  // Runtimes go through a list of plugins, so that one DEL that has begun announces others.
  [[nodiscard]] bool IsDelBegun() const { return IsAny(Phase::kGone) || IsAny(Phase::kLeaving); }

  // Nothing is left but parts that are gone.
  [[nodiscard]] bool IsEmpty() const;

  [[nodiscard]] Record With(const cni::Parts& some, Phase phase) const;
  [[nodiscard]] Record Without(const cni::Parts& some) const;
  // All that it has, in another phase.
  [[nodiscard]] Record All(Phase phase) const;
  // What is being made is live.
  [[nodiscard]] Record Finished() const;
  [[nodiscard]] Record OnlyLive() const;
  [[nodiscard]] bool HasIpv6() const;
  // Of the container's interface: the configured one, else derived from its first address.
  [[nodiscard]] Mac ContainerMac() const;
};

}  // namespace nomad_bridge::state
