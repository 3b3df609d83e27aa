// The network config: every key we read, checked in type, value and meaning before anything is
// touched.
//
// Keys     the reference plugins' own names; defaults are those of the name the binary was started
//          under (names.h). README has the table. runtimeConfig, args.cni and CNI_ARGS are folded
//          in here. Of a MAC the strongest wins: runtimeConfig, args.cni, CNI_ARGS, config.
// Refused  keys of the reference plugins that this name does not do (kUnsupportedField, naming key,
//          value and the way out): never silently ignored. Keys nobody knows are ignored, as the
//          specification asks.
// Errors   kInvalidConfig, kUnsupportedField; kInvalidEnvironment for CNI_ARGS.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/ip.h"
#include "base/route.h"
#include "base/vlan_range.h"
#include "firewall/address_policy.h"
#include "firewall/ruleset.h"
#include "ipam/range.h"
#include "plugin/cni/delegate.h"
#include "plugin/cni/labels.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/cni/request.h"
#include "plugin/cni/result.h"
#include "portmap/mapping.h"

namespace nomad_bridge::config {

struct LinkConfig {
  std::string bridge;
  int mtu = 0;  // 0: the kernel's default
  std::optional<Mac> mac;
  bool is_gateway = false;
  bool is_default_gateway = false;
  bool force_address = false;
  bool hairpin_mode = false;
  bool promisc_mode = false;
  bool port_isolation = false;
  bool mac_spoof_check = false;
  std::uint16_t vlan =
      0;  // of what comes from the container without a tag; 0: the network has none
  std::vector<VlanRange> vlan_trunk;  // with a tag
  bool preserve_default_vlan = false;
  bool enable_dad = false;
  bool disable_container_interface = false;

  [[nodiscard]] bool HasVlans() const { return vlan != 0 || !vlan_trunk.empty(); }
  // In VLAN 1 the node is without more: as the bridge.
  [[nodiscard]] bool HasVlanGateway() const { return vlan > 1 && is_gateway; }
  // The link that gets the gateway's addresses: the bridge, or "<bridge>.<vlan>".
  [[nodiscard]] std::string GatewayIfname() const;
};

struct IpamConfig {
  // "host-local": in this process. Any other: that plugin is run. Empty: no addresses.
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
  firewall::ForwardHook forward_hook;  // of a name that does not forward: without an admin chain
  firewall::Ingress ingress = firewall::Ingress::kOpen;
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

// For ADD and CHECK: all that `name` does, or an error. Keys of parts that it does not do are not
// looked at, as the config of a list's other plugin may hold them.
[[nodiscard]] Config ParseConfig(const cni::Request& request, const cni::PluginType& type);

// For DEL, GC and STATUS, which must get by with a config that ADD would refuse: what can be read,
// defaults for the rest. Never throws.
struct LenientConfig {
  std::string bridge;
  std::string ipam_type;
  std::string data_dir;
};
[[nodiscard]] LenientConfig ParseLenient(const nlohmann::json& config,
                                         const cni::Defaults& defaults);

}  // namespace nomad_bridge::config
