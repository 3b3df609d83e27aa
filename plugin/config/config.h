// The network config: every key we read, checked in type, value and meaning before anything is
// touched.
//
// Shapes   the reference plugins' own keys; defaults are those of the name the binary was started
//          under (plugin_type.h). runtimeConfig, args.cni and CNI_ARGS are folded in here. Of a MAC
//          the strongest wins: runtimeConfig, args.cni, CNI_ARGS, config. MTU in bytes.
// Errors   kInvalidConfig; kInvalidEnvironment for CNI_ARGS; kDecode for a key in two letter cases.
//          kUnsupportedField for a key of the reference plugins that this name does not do, with
//          what to do instead: never silently ignored. Unknown keys are ignored, as the
//          specification asks.
// Source   CNI conventions; the reference plugins' documentation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.h"
#include "base/route.h"
#include "base/vlan_range.h"
#include "firewall/address_policy.h"
#include "firewall/forward_hook.h"
#include "ipam/range.h"
#include "plugin/cni/delegate.h"
#include "plugin/cni/labels.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/cni/request.h"
#include "plugin/cni/result.h"
#include "portmap/mapping.h"

namespace nomad_bridge::config {

// Whether addresses that conflict with the gateway's are removed from the bridge.
enum class ForceAddress {
  kNo,
  kOnOwnBridge,  // by default alone: not from a bridge that somebody else made, or that has an uplink
  kYes,
};

// Whether what an allocation sends is checked at its port of the bridge.
enum class SourceCheck {
  kOff,
  kIfPossible,  // the default of the name, where the kernel can
  kOn,          // the config says so
};

// Not a number: see link::MtuOf.
constexpr int kUplinkMtu = -1;

struct LinkConfig {
  std::string bridge;
  int mtu = 0;  // 0: the kernel's default; or kUplinkMtu
  std::optional<Mac> mac;
  bool is_gateway = false;
  bool is_default_gateway = false;
  ForceAddress force_address = ForceAddress::kNo;
  bool hairpin_mode = false;
  bool promisc_mode = false;
  bool port_isolation = false;
  bool mac_spoof_check = false;
  SourceCheck source_check = SourceCheck::kOff;
  std::uint16_t vlan = 0;             // of the container's untagged frames; 0: no VLAN
  std::vector<VlanRange> vlan_trunk;  // of its tagged frames
  bool preserve_default_vlan = false;
  bool enable_dad = false;
  bool disable_container_interface = false;

  [[nodiscard]] bool HasVlans() const { return vlan != 0 || !vlan_trunk.empty(); }
  // VLAN 1 needs no sub-interface: the bridge device is itself an untagged member.
  [[nodiscard]] bool HasVlanGateway() const { return vlan > 1 && is_gateway; }
  // The link that gets the gateway's addresses: the bridge, or "<bridge>.<vlan>".
  [[nodiscard]] std::string GatewayIfname() const;
};

struct IpamConfig {
  // "host-local" is done in this process; any other plugin is run; empty: no addresses.
  std::string type;
  std::string data_dir;
  std::vector<ipam::RangeSet> ranges;
  std::vector<Route> routes;
  cni::Dns dns;  // from resolvConf
  // CNI_ARGS IP, args.cni.ips, runtimeConfig.ips, in this order, each once.
  std::vector<Ip> requested;
};

struct RulesConfig {
  bool ip_masq = false;
  bool snat = true;
  bool masq_all = false;
  firewall::ForwardHook forward_hook;  // no admin chain without Part::kForward
  firewall::Ingress ingress = firewall::Ingress::kOpen;
  firewall::Inbound inbound = firewall::Inbound::kAny;
  std::string firewalld_zone;
  std::vector<portmap::PortMapping> ports;
};

struct Config {
  LinkConfig link;
  IpamConfig ipam;
  RulesConfig rules;
  cni::Dns dns;        // the config's own; if it has any, it replaces ipam's wholly
  cni::Labels labels;  // CNI_ARGS, then args.cni.labels
  bool repair_on_check = true;
  std::optional<cni::Result> prev_result;
};

// For ADD and CHECK: the settings of all parts of `type`. Keys of other parts are not looked at: they
// may be another plugin's.
[[nodiscard]] Config ParseConfig(const cni::Request& request, const cni::PluginType& type);

// For DEL, GC and STATUS, which must work with a config that ADD would refuse: what can be read,
// defaults for the rest. Never throws for a config in which no key stands in two letter cases, as
// ReadRequest returns it for these verbs.
struct LenientConfig {
  std::string bridge;
  std::string ipam_type;
  std::string data_dir;
};
[[nodiscard]] LenientConfig ParseLenient(const cni::JsonView& config,
                                         const cni::Defaults& defaults);

}  // namespace nomad_bridge::config
