// Describes what an ADD intends and has done: all that DEL, CHECK, GC, takeover and repair need to
// know of an attachment.
//
// Written  as a whole, before the first change to the kernel, and removed after the last change
//          (record_store.h).
// Shape    state_json.h describes the record's file.
// Units    addresses are network byte order inside Ip, ports host byte order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "base/ip.h"
#include "base/route.h"
#include "ipam/range.h"
#include "netlink/core/netns.h"
#include "plugin/cni/delegate.h"
#include "plugin/cni/labels.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/cni/request.h"
#include "plugin/config/config.h"
#include "plugin/policy/program.h"
#include "portmap/mapping.h"

namespace nomad_bridge::state {

// The boot and host namespace in which state was written. State of another origin (a second "host"
// that shares /run) is not ours to use.
struct Origin {
  std::string boot_id;  // as in /proc/sys/kernel/random/boot_id, without the line end
  netlink::NetnsId netns;

  bool operator==(const Origin&) const = default;
};

// The directory of all our state: "/run/nomad-bridge".
constexpr const char* kStateDirectory = "/run/nomad-bridge";

// How far a part of an attachment has come. The command that holds the attachment's lock writes the
// phase before it changes the kernel. If nobody holds the lock, a killed command left a part in
// phase making or leaving, and anybody may remove it. Only live parts are repaired.
enum class Phase {
  kMaking,
  kLive,
  kLeaving,
};

using PartPhases = std::map<cni::Part, Phase>;

// Returns `command`, to be run in the network namespace at `path`.
[[nodiscard]] inline std::string InNetns(const std::string& path, const std::string& command) {
  return Format("nsenter --net={} {}", ShellWord(path), command);
}

struct Record {
  AttachmentId id;
  PartPhases parts;  // the parts that are ours, made by one process or by several
  cni::Labels labels;
  std::string netns_path;  // the container's network namespace, as CNI_NETNS named it
  netlink::NetnsId netns;
  std::uint64_t created = 0;  // time of its ADD, in seconds since 1970; 0: not known
  // The file has keys that we do not know. Writing the record would lose them, so it stays
  // unchanged until its DEL (record_store.h).
  bool is_of_newer_release = false;
  // There is no file. What is known comes from the kernel and the leases, and may be incomplete
  // (attachment/unrecorded.h).
  bool is_from_kernel = false;

  struct Link : config::LinkSpec {
    // The host ends of another plugin's veth pairs, if they are not on a bridge. Only this
    // container uses them.
    std::vector<std::string> foreign_host_ifnames;
    // The host ends of another plugin's veth pairs that are ports of its bridge.
    std::vector<std::string> foreign_ports;
    std::vector<Cidr> gateways;  // addresses that gateway_ifname must have for this attachment
    // When the first attachment on the bridge was made, the bridge had an uplink, or was not made
    // by us: other machines may be on it.
    bool adopted = false;
    bool made_by_us = false;  // we have created the bridge; it may have an uplink all the same
  } link;

  // The families that have a default route.
  struct DefaultRoutes {
    bool ipv4 = false;
    bool ipv6 = false;

    [[nodiscard]] bool Has(Family family) const { return family == Family::kIpv4 ? ipv4 : ipv6; }
    void Add(Family family) { (family == Family::kIpv4 ? ipv4 : ipv6) = true; }
    // Returns the families of those `routes` that are for the main table.
    [[nodiscard]] static DefaultRoutes Of(const std::vector<Route>& routes);
  };

  struct Ipam {
    std::vector<Cidr> addresses;  // the container's addresses
    // The default routes that ADD gave the container. A network may have none on purpose.
    DefaultRoutes default_routes;
    std::string data_dir;
    std::vector<Cidr> leases;            // those of `addresses` that are leased in data_dir
    std::vector<ipam::RangeSet> ranges;  // the ranges of `addresses`, for people
    std::optional<cni::DelegatedIpam> delegated;  // the IPAM plugin of the others

    // Returns whether a range may assign `address` again within minutes, while flows live and
    // neighbours remember it. IPv6 ranges are usually too large for that.
    [[nodiscard]] bool IsSoonGivenAgain(const Ip& address) const;
  } ipam;

  // The sets and chains that the policies of `revision` give the attachment. With them its elements
  // are found without the policies.
  struct Policy : policy::Judgement {
    std::string revision;       // empty: there were no policies
    bool judges_ports = false;  // has elements for its bridge ports, as some policy closes others

    bool operator==(const Policy&) const = default;
  };

  struct Rules : config::RuleSpec {
    std::vector<portmap::DnatEntry> ports;
    // The node's default routes when the ports were published: shows what the node has lost since.
    DefaultRoutes had_default_route;
    Policy policy;
  } rules;

  // Returns the part's phase; nullopt if the part was never made, or has been removed.
  [[nodiscard]] std::optional<Phase> PhaseOf(cni::Part part) const;
  // Returns whether the part is in any phase.
  [[nodiscard]] bool Has(cni::Part part) const { return parts.contains(part); }
  [[nodiscard]] bool HasAny(const cni::Parts& some) const;
  [[nodiscard]] bool HasRules() const;
  [[nodiscard]] bool IsAny(Phase phase) const;
  [[nodiscard]] bool IsLive(cni::Part part) const { return PhaseOf(part) == Phase::kLive; }
  // Returns its parts, in any phase.
  [[nodiscard]] cni::Parts AllParts() const;

  [[nodiscard]] Record With(const cni::Parts& some, Phase phase) const;
  [[nodiscard]] Record Without(const cni::Parts& some) const;
  [[nodiscard]] Record Only(const cni::Parts& some) const;
  // Returns the record with its parts in phase kMaking changed to kLive.
  [[nodiscard]] Record Finished() const;
  [[nodiscard]] Record OnlyLive() const;
  // Returns the printable labels by which policies select the attachment.
  [[nodiscard]] cni::Workload Workload() const;
  // Returns `command`, to be run in the container's namespace.
  [[nodiscard]] std::string InsideFix(const std::string& command) const {
    return InNetns(netns_path, command);
  }
  // Returns the node's own address in the container's network.
  [[nodiscard]] std::optional<Ip> OwnGateway(Family family) const;
  // Returns "nomad alloc stop 5f3c...", or the equivalent for another runtime.
  [[nodiscard]] Fix RuntimeFix(std::string_view verb) const {
    return cni::RuntimeFix(verb, id.container_id, cni::Shorten(labels));
  }
  [[nodiscard]] bool HasIpv6() const { return HasFamily(ipam.addresses, Family::kIpv6); }
  // Returns the MAC of the container's interface: the configured one, else one derived from its
  // first address.
  [[nodiscard]] Mac ContainerMac() const;
};

// Returns all that is known of an attachment before its first change, which its ADD begins now. The
// addresses come later, from IPAM.
[[nodiscard]] Record IntentOf(const cni::Request& request,
                              const cni::PluginType& type,
                              const config::Config& config,
                              const netlink::NetnsId& container);

}  // namespace nomad_bridge::state
