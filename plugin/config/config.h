// The network config: reads every key that we know, and checks its type, value and meaning before
// any command changes anything.
//
// Shapes   The keys of the reference plugins. The name under which the binary was started decides
//          the defaults (plugin_type.h). The result includes runtimeConfig, args.cni and CNI_ARGS.
//          If several give a MAC, the first of these wins: runtimeConfig, args.cni, CNI_ARGS,
//          config. MTU in bytes.
// Errors   kInvalidConfig; kInvalidEnvironment for CNI_ARGS; kDecode for a key in two letter cases.
//          kUnsupportedField for a key of the reference plugins that this name does not support;
//          the error says what to do instead. Such a key is never silently ignored. Unknown keys
//          are ignored, as the specification requires.
// Source   CNI conventions; the reference plugins' documentation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bridge_port.h"
#include "base/error.h"
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

// Whether to remove addresses from the bridge that conflict with the gateway's addresses.
enum class ForceAddress {
  kNo,
  kOnOwnBridge,  // default: only from a bridge that we made and that has no uplink
  kYes,
};

// The host end of an attachment as a port of its bridge.
struct PortSpec {
  bool hairpin = false;
  bool isolated = false;
  bool locked = false;             // drops frames from any MAC but the container's
  bool source_check = false;       // in table bridge nomad-bridge (firewall/port_filter.h)
  std::optional<PortVlans> vlans;  // nullopt: the kernel's default

  [[nodiscard]] PortFlags Flags() const {
    return {.hairpin = hairpin, .isolated = isolated, .forwards_groups = source_check};
  }
};

// The value that means the MTU of the node's uplink: see link::MtuOf.
constexpr int kUplinkMtu = -1;

// The zone of firewalld that refuses nothing from its links.
constexpr const char* kDefaultFirewalldZone = "trusted";

constexpr int kMinIpv6Mtu = 1280;  // the minimum for IPv6: RFC 8200, section 5
constexpr int kEthernetMtu = 1500;

// Bridge and port of an attachment. The config has it, and the record keeps it for later commands.
struct LinkSpec {
  std::string bridge;  // the bridge that our host veth is a port of
  int mtu = 0;         // 0: the kernel's default; or kUplinkMtu
  ForceAddress force_address = ForceAddress::kNo;
  bool promisc_mode = false;
  bool makes_bridge = true;  // ADD and repair create the bridge if it is missing
  // The link through which the node, and hosts behind it, reach the container: the bridge itself,
  // or the gateway of its VLAN, "<bridge>.<vlan>". In a record it may also be another plugin's
  // bridge.
  std::string gateway_ifname;
  PortSpec port;
  std::optional<Mac> mac;  // the container's MAC, if the config sets it

  // Returns the VLAN of the gateway; nullopt if the gateway is the bridge itself.
  [[nodiscard]] std::optional<std::uint16_t> GatewayVlan() const;
};

struct LinkConfig : LinkSpec {
  bool is_gateway = false;
  bool is_default_gateway = false;
  // The config has "sourceCheck": true, so ADD fails if the kernel cannot check. If sourceCheck is
  // only the default, ADD goes on without it.
  bool requires_source_check = false;
  bool enable_dad = false;
  bool disable_container_interface = false;
};

struct IpamConfig {
  // "host-local" runs in this process. Any other plugin is executed. Empty: no addresses.
  std::string type;
  std::string data_dir;
  std::vector<ipam::RangeSet> ranges;
  std::vector<Route> routes;
  cni::Dns dns;  // from resolvConf
  // From CNI_ARGS IP, args.cni.ips and runtimeConfig.ips, in this order, without duplicates.
  std::vector<Ip> requested;
};

struct ForwardSpec {
  firewall::ForwardHook forward_hook;  // no admin chain without Part::kForward
  firewall::Ingress ingress = firewall::Ingress::kOpen;
  firewall::Inbound inbound = firewall::Inbound::kAny;
  std::string firewalld_zone = kDefaultFirewalldZone;  // for gateway_ifname, if firewalld runs
};

struct PublishSpec {
  bool snat = false;
  bool masq_all = false;
};

// The config's keys about rules, as records store them: for Part::kForward, kPorts and kMasquerade.
struct RuleSpec : ForwardSpec, PublishSpec {
  bool ip_masq = false;
  bool random_ports = false;               // when masquerading
  std::vector<Cidr> non_masquerade_cidrs;  // packets to these keep their source
};

struct RulesConfig : RuleSpec {
  std::vector<portmap::PortMapping> ports;
  bool policy_required = false;  // no ADD before policies have been applied on this node
};

// A key that this code does not read: it is for a runtime or another plugin, or is misspelt.
struct UnknownKey {
  std::string key;      // "ipam.rangStart"
  std::string nearest;  // a known key with a similar name; may be empty
};

struct Config {
  LinkConfig link;
  IpamConfig ipam;
  RulesConfig rules;
  cni::Dns dns;        // the config's own; if it is not empty, it replaces all of ipam's
  cni::Labels labels;  // CNI_ARGS, then args.cni.labels
  std::optional<Error> labels_error;  // a mistake in CNI_ARGS, which hides its labels
  bool repair_on_check = true;
  std::optional<cni::Result> prev_result;
  std::vector<UnknownKey> unknown_keys;
};

// Parses a config for ADD and CHECK: the settings of all parts of `type`. Ignores keys of other
// parts, because they may be another plugin's.
[[nodiscard]] Config ParseConfig(const cni::Request& request, const cni::PluginType& type);

// The config for DEL, GC and STATUS, which must work even if ADD would refuse the config. Has the
// values that can be read, and defaults for all others. Parsing throws only if a key occurs in two
// letter cases; ReadRequest removes such keys for these verbs.
struct LenientConfig {
  std::string bridge;
  std::string ipam_type;
  std::string data_dir;
};
[[nodiscard]] LenientConfig ParseLenient(const cni::JsonView& config,
                                         const cni::Defaults& defaults);

}  // namespace nomad_bridge::config
