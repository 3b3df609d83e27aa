// The values in configs and records that are about forwarding: ingressPolicy, inbound, and the
// static rules in the tables of iptables (firewall/static_rules.h). This header knows nothing of
// the ruleset that is made of them.
#pragma once

#include <string>

#include "base/names.h"

namespace nomad_bridge::firewall {

// Which new connections the node forwards to an allocation from interfaces other than our bridges.
enum class Inbound {
  kAny,
  kPublished,  // only to published ports; closed4/6
};

inline constexpr Names<Inbound, 2> kInboundNames = {
    {{Inbound::kAny, "any"}, {Inbound::kPublished, "published"}}};

// The firewall plugin's ingressPolicy: which new connections the node forwards to a bridge.
enum class Ingress {
  kOpen,        // all
  kSameBridge,  // all, except from another bridge that is not open
  kIsolated,    // also not from the same bridge
};

inline constexpr Names<Ingress, 3> kIngressNames = {{{Ingress::kOpen, "open"},
                                                     {Ingress::kSameBridge, "same-bridge"},
                                                     {Ingress::kIsolated, "isolated"}}};

struct ForwardHook {
  // The operator's own chain. Empty in a record: nothing is forwarded for the attachment. Empty in
  // the static rules: they only accept the mark.
  std::string admin_chain;
  int accept_mark_bit = 12;  // 0..31; the same for the whole node
  bool ipv6 = false;         // also in table ip6 filter

  bool operator==(const ForwardHook&) const = default;
};

}  // namespace nomad_bridge::firewall
