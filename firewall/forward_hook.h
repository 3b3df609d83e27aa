// What configs and records say of forwarding, without the ruleset that it becomes: ingressPolicy,
// inbound, and the static rules in iptables' own tables (firewall/static_rules.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nomad_bridge::firewall {

// Which new connections the node forwards to an allocation from interfaces that are no bridges of
// ours.
enum class Inbound {
  kAny,
  kPublished,  // those to published ports; closed4/6
};

// "any", "published".
[[nodiscard]] std::optional<Inbound> ParseInbound(std::string_view text);

// The firewall plugin's ingressPolicy: which new connections the node forwards to a bridge.
enum class Ingress {
  kOpen,        // all
  kSameBridge,  // none from another bridge that is not open
  kIsolated,    // nor from this bridge
};

// "open", "same-bridge", "isolated".
[[nodiscard]] std::optional<Ingress> ParseIngress(std::string_view text);

struct ForwardHook {
  std::string admin_chain;   // empty: no static rules, nothing is forwarded for it
  int accept_mark_bit = 12;  // 0..31; one for the whole node
  bool ipv6 = false;         // table ip6 filter too

  bool operator==(const ForwardHook&) const = default;
};

}  // namespace nomad_bridge::firewall
