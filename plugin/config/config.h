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
#include <vector>

#include "base/bridge_port.h"
#include "base/ip.h"
#include "base/route.h"
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

// The host end of an attachment as a port of its bridge.
struct PortSpec {
  bool hairpin = false;
  bool isolated = false;
  bool locked = false;             // frames from any MAC but the container's are dropped
  bool source_check = false;       // it is in table bridge nomad-bridge (firewall/port_filter.h)
  std::optional<PortVlans> vlans;  // nullopt: the kernel's default

  [[nodiscard]] PortFlags Flags() const {
    return {.hairpin = hairpin, .isolated = isolated, .forwards_groups = source_check};
  }
};

// Not a number: see link::MtuOf.
constexpr int kUplinkMtu = -1;

// firewalld's for links that nothing is refused from.
constexpr const char* kDefaultFirewalldZone = "trusted";

constexpr int kMinIpv6Mtu = 1280;  // of a link that has IPv6: RFC 8200, section 5
constexpr int kEthernetMtu = 1500;

// Bridge and port of an attachment: in its config, and in its record for all that come later.
struct LinkSpec {
  std::string bridge;  // of which our host veth is a port
  int mtu = 0;         // 0: the kernel's default; or kUplinkMtu
  ForceAddress force_address = ForceAddress::kNo;
  bool promisc_mode = false;
  // Where the node and what lies behind it reach the container: the bridge itself, or the gateway
  // of its VLAN, "<bridge>.<vlan>". In a record also a foreign plugin's bridge.
  std::string gateway_ifname;
  PortSpec port;
  std::optional<Mac> mac;  // the container's, if the config asks for one

  // Of a gateway that is not the bridge itself.
  [[nodiscard]] std::optional<std::uint16_t> GatewayVlan() const;
};

struct LinkConfig : LinkSpec {
  bool is_gateway = false;
  bool is_default_gateway = false;
  bool requires_source_check = false;  // the config says so; else only where the kernel can
  bool enable_dad = false;
  bool disable_container_interface = false;
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

struct ForwardSpec {
  firewall::ForwardHook forward_hook;  // no admin chain without Part::kForward
  firewall::Ingress ingress = firewall::Ingress::kOpen;
  firewall::Inbound inbound = firewall::Inbound::kAny;
  std::string firewalld_zone = kDefaultFirewalldZone;  // for gateway_ifname, where firewalld runs
};

struct PublishSpec {
  bool snat = false;
  bool masq_all = false;
};

// What the config says of rules, as records store it: Part::kForward's, kPorts' and kMasquerade's.
struct RuleSpec : ForwardSpec, PublishSpec {
  bool ip_masq = false;
  bool random_ports = false;  // of what is masqueraded
};

struct RulesConfig : RuleSpec {
  std::vector<portmap::PortMapping> ports;
  bool policy_required = false;  // no ADD before policies were applied on this node
};

// That nothing here asks for: a runtime's, another plugin's, or misspelt.
struct UnknownKey {
  std::string key;      // "ipam.rangStart"
  std::string nearest;  // a key that is meant perhaps; may be empty
};

struct Config {
  LinkConfig link;
  IpamConfig ipam;
  RulesConfig rules;
  cni::Dns dns;        // the config's own; if it has any, it replaces ipam's wholly
  cni::Labels labels;  // CNI_ARGS, then args.cni.labels
  bool repair_on_check = true;
  std::optional<cni::Result> prev_result;
  std::vector<UnknownKey> unknown_keys;
};

// For ADD and CHECK: the settings of all parts of `type`. Keys of other parts are not looked at:
// they may be another plugin's.
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
